"""The pages: what a request writes and what it enqueues commit together, or not at all."""

from django.contrib.auth.models import User
from django.core import mail
from django.test import TestCase, TransactionTestCase

from django_nobroker import Queue
from django_nobroker.models import Job
from testproject.demo import visitors
from testproject.shop.models import Order
from tests.rows import alter
from tests.shop.scene import Shop

WORDS = "correct horse battery staple"
FORM = {
    "username": "ada",
    "email": "ada@customers.example",
    "password1": WORDS,
    "password2": WORDS,
}


class SignUp(Shop):
    """The cases; inside a test's transaction, and with commits of their own."""

    def test_writes_the_user_and_enqueues_the_mail(self):
        answer = self.client.post("/signup/", FORM)
        self.assertRedirects(answer, "/", fetch_redirect_response=False)
        user = User.objects.get()
        job = Job.objects.get()
        self.assertEqual((job.queue, job.payload), ("emails", {"mail": "welcome", "user": user.pk}))
        self.assertEqual((job.state, job.subject), ("ready", f"auth.user:{user.pk}"))
        self.assertEqual(self.client.get("/").context["user"], user)

    def test_the_mail_is_sent_by_the_worker(self):
        self.client.post("/signup/", FORM)
        self.assertEqual(mail.outbox, [])
        self.assertEqual(self.work().succeeded, 1)
        [sent] = mail.outbox
        self.assertEqual(sent.to, ["ada@customers.example"])
        self.assertIn("Welcome to The Orchard, ada", sent.subject)

    def test_a_request_that_fails_later_leaves_neither(self):
        self.assertEqual(visitors.fail_to_sign_up(), 500)
        self.assertFalse(User.objects.exists())
        self.assertFalse(Job.objects.exists())

    def test_a_form_with_errors_leaves_neither(self):
        answer = self.client.post("/signup/", FORM | {"password2": "something else"})
        self.assertEqual(answer.status_code, 200)
        self.assertFalse(User.objects.exists())
        self.assertFalse(Job.objects.exists())


class SignUpTests(SignUp, TestCase):
    pass


class CommittedSignUpTests(SignUp, TransactionTestCase):
    pass


class OrderTests(Shop, TestCase):
    def setUp(self):
        super().setUp()
        self.apples = self.product()
        Job.objects.all().delete()
        self.client.force_login(self.customer())

    def buy(self, quantity=2):
        return self.client.post("/", {f"product-{self.apples.pk}": quantity})

    def test_writes_the_order_and_enqueues_what_is_to_be_done(self):
        answer = self.buy()
        order = Order.objects.get()
        self.assertRedirects(answer, f"/orders/{order.pk}/")
        self.assertEqual([line.quantity for line in order.lines.all()], [2])
        jobs = {job.queue: job for job in Job.objects.all()}
        self.assertEqual(set(jobs), {"emails", "webhooks"})
        for job in jobs.values():
            self.assertEqual(job.subject, f"shop.order:{order.pk}")
            self.assertEqual(job.payload["order"], order.pk)

    def test_nothing_chosen_is_no_order(self):
        for quantity in ("", 0, -1, 100, "many"):
            with self.subTest(quantity=quantity):
                self.assertEqual(self.buy(quantity).status_code, 200)
        self.assertFalse(Order.objects.exists())
        self.assertFalse(Job.objects.exists())

    def test_whoever_is_not_logged_in_is_asked_to(self):
        self.client.logout()
        self.assertRedirects(self.buy(), "/login/?next=/")
        self.assertFalse(Order.objects.exists())

    def test_the_page_tells_of_the_jobs_behind_it(self):
        self.buy()
        order = Order.objects.get()
        page = self.client.get(f"/orders/{order.pk}/")
        self.assertContains(page, "emails")
        self.assertContains(page, "http-equiv")
        job = Job.objects.get(queue="webhooks")
        Queue("webhooks").nack(Queue("webhooks").lease_one(), error="<b>no</b>", delay=3600)
        alter(job, priority=1)
        page = self.client.get(f"/orders/{order.pk}/")
        self.assertContains(page, "&lt;b&gt;no&lt;/b&gt;")
        self.assertNotContains(page, "<b>no</b>")

    def test_nobody_sees_the_orders_of_others(self):
        self.buy()
        order = Order.objects.get()
        self.assertContains(self.client.get("/orders/"), f"No. {order.pk}")
        self.client.force_login(self.customer("mallory"))
        self.assertEqual(self.client.get(f"/orders/{order.pk}/").status_code, 404)
        self.assertNotContains(self.client.get("/orders/"), f"No. {order.pk}")


class CatalogueTests(Shop, TestCase):
    def test_a_product_is_put_up_with_the_jobs_for_its_thumbnails(self):
        product = self.product()
        jobs = list(Job.objects.order_by("id"))
        self.assertEqual(
            [job.payload for job in jobs],
            [{"product": product.pk, "width": width} for width in (96, 360)],
        )
        self.assertContains(self.client.get("/"), "Apples")
        self.work()
        self.assertContains(self.client.get("/"), f"thumbnails/{product.pk}-360")

    def test_the_whole_assortment(self):
        visitors.stock()
        self.assertEqual(Queue("thumbnails").stats().ready, 16)
