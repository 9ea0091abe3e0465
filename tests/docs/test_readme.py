"""The README's promises that its snippets do not show by themselves."""

import json
import sys

from django.contrib.auth.models import User
from django.test import RequestFactory, TestCase

from django_nobroker import Queue
from django_nobroker.models import Job

from .pages import page
from .play import Play


class QuickstartTests(TestCase):
    def setUp(self):
        User.objects.create_user("ann", "ann@example.org")
        self.play = self.enterContext(Play(page("README.md"), self))
        self.play.run()

    def test_the_view_writes_the_user_and_the_job(self):
        request = RequestFactory().post("/", {"name": "bob", "email": "bob@example.org"})
        sys.modules["mysite.views"].sign_up(request)
        bob = User.objects.get(username="bob")
        [job] = Queue("emails").list_jobs("ready")
        self.assertEqual(json.loads(job.payload_text), {"user": bob.pk})
        self.assertEqual(job.subject, f"auth.user:{bob.pk}")

    def test_a_request_that_fails_leaves_neither(self):
        before = User.objects.count(), Job.objects.count()
        request = RequestFactory().post("/", {"name": "bob", "email": "bob@example.org"})
        views = sys.modules["mysite.views"]
        views.HttpResponse = None  # so that the view fails after it has enqueued
        with self.assertRaises(TypeError):
            views.sign_up(request)
        self.assertEqual((User.objects.count(), Job.objects.count()), before)

    def test_its_use_is_said_in_three_sentences(self):
        first = page("README.md").text.split("\n\n")[1]
        self.assertEqual(first.count(". ") + first.count(".\n") + first.endswith("."), 3)
