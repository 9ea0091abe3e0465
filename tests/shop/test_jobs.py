"""The shop's handlers. Each may run twice, and knows what another try cannot mend."""

from django.core import mail
from django.core.files.base import ContentFile
from django.test import TestCase
from PIL import Image

from django_nobroker import Queue
from testproject.shop.models import Order, Product, Thumbnail
from tests.rows import bring_forward
from tests.shop.scene import Shop
from tests.work import fresh, states


class MailTests(Shop, TestCase):
    def test_a_confirmation_names_what_was_ordered(self):
        order, _ = self.order(7)
        order.lines.create(product=self.product(), quantity=3, price="2.40")
        Queue("emails").enqueue(
            {"mail": "confirmation", "user": order.customer.pk, "order": order.pk}
        )
        self.work(exclude=["webhooks"])
        [sent] = mail.outbox
        self.assertEqual((sent.subject, sent.to), ("Your order 7", [order.customer.email]))
        self.assertIn("3 kg Apples, 7.20 EUR", sent.body)
        self.assertIn("Together: 7.20 EUR", sent.body)

    def test_what_cannot_be_sent_is_dead_at_once(self):
        user = self.customer()
        jobs = [
            Queue("emails").enqueue({"mail": "no such mail", "user": user.pk}),
            Queue("emails").enqueue({"mail": "welcome", "user": user.pk + 1}),
        ]
        self.work()
        self.assertEqual(states(*jobs), ["dead", "dead"])
        self.assertIn("no mail named", fresh(jobs[0]).last_error)
        self.assertIn("has left", fresh(jobs[1]).last_error)
        self.assertEqual(mail.outbox, [])

    def test_a_payload_that_is_not_as_agreed_fails_and_hurts_nobody(self):
        bad = Queue("emails", max_attempts=1).enqueue(["not", "as", "agreed"])
        good = Queue("emails").enqueue({"mail": "welcome", "user": self.customer().pk})
        self.work()
        self.assertEqual(states(bad, good), ["dead", "done"])


class ThumbnailTests(Shop, TestCase):
    def test_a_real_picture_at_both_widths(self):
        product = self.product()
        self.assertEqual(self.work().succeeded, 2)
        for thumbnail in Thumbnail.objects.filter(product=product):
            with thumbnail.image.open() as file, Image.open(file) as picture:
                self.assertEqual((picture.format, picture.width), ("JPEG", thumbnail.width))
                self.assertLessEqual(picture.height, thumbnail.width)

    def test_twice_is_once(self):
        product = self.product()
        self.work()
        names = set(Thumbnail.objects.values_list("image", flat=True))
        for width in (96, 360):
            Queue("thumbnails").enqueue({"product": product.pk, "width": width})
        self.assertEqual(self.work().succeeded, 2)
        self.assertEqual(set(Thumbnail.objects.values_list("image", flat=True)), names)

    def test_an_error_page_for_a_picture_is_dead_at_once_and_runs_once_it_is_mended(self):
        product = self.product()
        product.picture.save("apple.jpg", ContentFile(b"<html>502 Bad Gateway</html>"))
        self.assertEqual(self.work().dead, 2)
        self.assertIn("is not a picture", Queue("thumbnails").dlq()[0].last_error)
        good = self.product("Pears", "pear.jpg")
        self.work()
        with good.picture.open() as picture:
            product.picture.save("apple.jpg", picture)
        self.assertEqual(Queue("thumbnails").requeue_dead(), 2)
        self.assertEqual(self.work().succeeded, 2)
        self.assertEqual(product.thumbnails.count(), 2)

    def test_a_product_that_is_gone(self):
        self.product()
        Product.objects.all().delete()
        self.assertEqual(self.work().dead, 2)


class WebhookTests(Shop, TestCase):
    def test_the_warehouse_is_told_once(self):
        order, job = self.order(1)
        with self.warehouse() as warehouse:
            self.work()
            Queue("webhooks").enqueue({"order": 1})
            self.work()
        self.assertEqual(states(job), ["done"])
        self.assertEqual((warehouse.known, warehouse.calls.total()), ({1}, 1))
        order.refresh_from_db()
        self.assertIsNotNone(order.announced_at)

    def test_a_warehouse_that_fails_once_is_told_at_the_second_try(self):
        _, job = self.order(2)
        with self.warehouse() as warehouse:
            self.work()
            self.assertEqual((fresh(job).state, fresh(job).attempts), ("ready", 1))
            self.assertIn("503", fresh(job).last_error)
            bring_forward(job)
            self.work()
        self.assertEqual((fresh(job).state, fresh(job).attempts), ("done", 2))
        self.assertEqual(warehouse.known, {2})

    def test_one_that_always_fails_ends_in_a_dead_letter_until_it_is_repaired(self):
        _, job = self.order(4)
        with self.warehouse() as warehouse:
            for _ in range(3):
                bring_forward(job)
                self.work()
            self.assertEqual((fresh(job).state, fresh(job).attempts), ("dead", 3))
            self.assertEqual(fresh(job).failed_attempts.count(), 3)
            warehouse.repair()
            self.assertEqual(Queue("webhooks").requeue_dead(), 1)
            self.assertEqual(fresh(job).attempts, 0)
            self.work()
        self.assertEqual(states(job), ["done"])
        self.assertEqual(warehouse.known, {4})

    def test_a_warehouse_that_is_not_there(self):
        _, job = self.order(1)
        with self.warehouse():
            pass
        with self.settings(SHOP_WEBHOOK_URL="http://127.0.0.1:9/orders/"):
            self.work()
        self.assertEqual(states(job), ["ready"])
        self.assertIn("cannot be reached", fresh(job).last_error)

    def test_an_order_that_was_withdrawn(self):
        _, job = self.order(1)
        Order.objects.all().delete()
        with self.warehouse() as warehouse:
            self.work()
        self.assertEqual(states(job), ["dead"])
        self.assertEqual(warehouse.calls.total(), 0)
