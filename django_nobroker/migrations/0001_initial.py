import django.db.models.deletion
from django.db import migrations, models

import django_nobroker.clock
import django_nobroker.constraints
import django_nobroker.fields
import django_nobroker.indexes
from django_nobroker import sql


def tune(apps, schema_editor):
    sql.tune(schema_editor.connection.alias, schema_editor)


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Format",
            fields=[
                (
                    "key",
                    django_nobroker.fields.KeyField(
                        max_length=40, primary_key=True, serialize=False
                    ),
                ),
                ("version", models.IntegerField(db_default=1)),
            ],
            options={
                "db_table": "nobroker_meta",
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="WorkerProcess",
            fields=[
                (
                    "identity",
                    django_nobroker.fields.KeyField(
                        max_length=190, primary_key=True, serialize=False
                    ),
                ),
                (
                    "name",
                    django_nobroker.fields.KeyField(blank=True, db_default="", max_length=190),
                ),
                (
                    "host",
                    django_nobroker.fields.KeyField(blank=True, db_default="", max_length=255),
                ),
                ("pid", models.BigIntegerField(db_default=0)),
                ("queues", django_nobroker.fields.RawTextField()),
                ("concurrency", models.IntegerField(db_default=1)),
                ("running", models.IntegerField(db_default=0)),
                (
                    "versions",
                    django_nobroker.fields.KeyField(blank=True, db_default="", max_length=255),
                ),
                (
                    "started_at",
                    django_nobroker.fields.UTCDateTimeField(db_default=django_nobroker.clock.Now()),
                ),
                (
                    "heartbeat_at",
                    django_nobroker.fields.UTCDateTimeField(db_default=django_nobroker.clock.Now()),
                ),
            ],
            options={
                "db_table": "nobroker_worker",
                "default_permissions": ("view",),
            },
        ),
        migrations.CreateModel(
            name="Job",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("queue", django_nobroker.fields.KeyField(db_default="default", max_length=128)),
                (
                    "task",
                    django_nobroker.fields.KeyField(blank=True, db_default="", max_length=255),
                ),
                (
                    "backend",
                    django_nobroker.fields.KeyField(blank=True, db_default="", max_length=64),
                ),
                ("payload_text", django_nobroker.fields.RawTextField(db_column="payload")),
                (
                    "state",
                    django_nobroker.fields.KeyField(
                        choices=[
                            ("ready", "Ready"),
                            ("leased", "Leased"),
                            ("done", "Done"),
                            ("dead", "Dead"),
                            ("cancelled", "Cancelled"),
                        ],
                        db_default="ready",
                        max_length=10,
                    ),
                ),
                ("priority", models.SmallIntegerField(db_default=0)),
                (
                    "available_at",
                    django_nobroker.fields.UTCDateTimeField(db_default=django_nobroker.clock.Now()),
                ),
                ("attempts", models.SmallIntegerField(db_default=0)),
                ("max_attempts", models.SmallIntegerField(db_default=5)),
                ("fence", models.BigIntegerField(db_default=0)),
                ("lease_losses", models.SmallIntegerField(db_default=0)),
                ("snoozes", models.IntegerField(db_default=0)),
                (
                    "leased_by",
                    django_nobroker.fields.KeyField(blank=True, db_default="", max_length=190),
                ),
                ("leased_at", django_nobroker.fields.UTCDateTimeField(blank=True, null=True)),
                (
                    "lease_expires_at",
                    django_nobroker.fields.UTCDateTimeField(blank=True, null=True),
                ),
                ("started_at", django_nobroker.fields.UTCDateTimeField(blank=True, null=True)),
                ("job_id", django_nobroker.fields.KeyField(blank=True, max_length=190, null=True)),
                ("subject", django_nobroker.fields.KeyField(blank=True, max_length=190, null=True)),
                (
                    "error_class",
                    django_nobroker.fields.KeyField(blank=True, db_default="", max_length=200),
                ),
                ("last_error", django_nobroker.fields.RawTextField(blank=True, null=True)),
                ("unknown_since", django_nobroker.fields.UTCDateTimeField(blank=True, null=True)),
                ("progress", models.FloatField(blank=True, null=True)),
                (
                    "progress_note",
                    django_nobroker.fields.KeyField(blank=True, db_default="", max_length=200),
                ),
                ("result", django_nobroker.fields.RawTextField(blank=True, null=True)),
                (
                    "created_at",
                    django_nobroker.fields.UTCDateTimeField(db_default=django_nobroker.clock.Now()),
                ),
                ("finished_at", django_nobroker.fields.UTCDateTimeField(blank=True, null=True)),
            ],
            options={
                "db_table": "nobroker_job",
                "permissions": (
                    ("retry_job", "Can retry dead and cancelled jobs"),
                    ("discard_job", "Can discard jobs"),
                    ("cancel_job", "Can cancel jobs"),
                    ("edit_job_payload", "Can edit the payload of jobs"),
                    ("unmask_job", "Can see masked payload values"),
                ),
                "default_permissions": ("view",),
                "indexes": [
                    django_nobroker.indexes.PartialIndex(
                        fields=["queue", "priority", "lease_losses", "available_at", "id"],
                        instead=[
                            "state",
                            "queue",
                            "priority",
                            "lease_losses",
                            "available_at",
                            "id",
                        ],
                        name="nobroker_job_lane",
                        where=models.Q(("state", "ready")),
                    ),
                    django_nobroker.indexes.PartialIndex(
                        fields=["lease_expires_at"],
                        name="nobroker_job_expiry",
                        where=models.Q(("state", "leased")),
                    ),
                    django_nobroker.indexes.PartialIndex(
                        fields=["state", "finished_at", "id"],
                        name="nobroker_job_settled",
                        where=models.Q(("state__in", ["done", "dead", "cancelled"])),
                    ),
                    django_nobroker.indexes.PartialIndex(
                        fields=["subject"],
                        name="nobroker_job_subject",
                        where=models.Q(("subject__isnull", False)),
                    ),
                ],
                "constraints": [
                    django_nobroker.indexes.KeyConstraint(
                        fields=("queue", "job_id"), name="nobroker_job_key"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("state__in", ["ready", "leased", "done", "dead", "cancelled"])
                        ),
                        name="nobroker_job_state_known",
                    ),
                    models.CheckConstraint(
                        condition=django_nobroker.constraints.ValidName("queue"),
                        name="nobroker_job_queue_named",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("lease_expires_at__isnull", False), ("state", "leased")),
                            models.Q(
                                models.Q(("state", "leased"), _negated=True),
                                ("lease_expires_at__isnull", True),
                            ),
                            _connector="OR",
                        ),
                        name="nobroker_job_lease_dated",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("finished_at__isnull", False),
                                ("state__in", ["done", "dead", "cancelled"]),
                            ),
                            models.Q(
                                ("finished_at__isnull", True), ("state__in", ["ready", "leased"])
                            ),
                            _connector="OR",
                        ),
                        name="nobroker_job_end_dated",
                    ),
                    models.CheckConstraint(
                        condition=django_nobroker.constraints.Between(
                            "priority", least=-100, most=100
                        ),
                        name="nobroker_job_priority_bounded",
                    ),
                    models.CheckConstraint(
                        condition=django_nobroker.constraints.Between(
                            "attempts", least=0, most=32767
                        ),
                        name="nobroker_job_attempts_bounded",
                    ),
                    models.CheckConstraint(
                        condition=django_nobroker.constraints.Between(
                            "max_attempts", least=1, most=32767
                        ),
                        name="nobroker_job_max_attempts_bounded",
                    ),
                    models.CheckConstraint(
                        condition=django_nobroker.constraints.Between(
                            "fence", least=0, most=4611686018427387903
                        ),
                        name="nobroker_job_fence_bounded",
                    ),
                    models.CheckConstraint(
                        condition=django_nobroker.constraints.Between(
                            "lease_losses", least=0, most=32767
                        ),
                        name="nobroker_job_losses_bounded",
                    ),
                    models.CheckConstraint(
                        condition=django_nobroker.constraints.Between(
                            "snoozes", least=0, most=2000000000
                        ),
                        name="nobroker_job_snoozes_bounded",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("progress__isnull", True),
                            models.Q(("progress__gte", 0), ("progress__lte", 1)),
                            _connector="OR",
                        ),
                        name="nobroker_job_progress_bounded",
                    ),
                    models.CheckConstraint(
                        condition=django_nobroker.constraints.ValidTime("available_at"),
                        name="nobroker_job_available_at_valid",
                    ),
                    models.CheckConstraint(
                        condition=django_nobroker.constraints.ValidTime("leased_at"),
                        name="nobroker_job_leased_at_valid",
                    ),
                    models.CheckConstraint(
                        condition=django_nobroker.constraints.ValidTime("lease_expires_at"),
                        name="nobroker_job_lease_expires_at_valid",
                    ),
                    models.CheckConstraint(
                        condition=django_nobroker.constraints.ValidTime("started_at"),
                        name="nobroker_job_started_at_valid",
                    ),
                    models.CheckConstraint(
                        condition=django_nobroker.constraints.ValidTime("unknown_since"),
                        name="nobroker_job_unknown_since_valid",
                    ),
                    models.CheckConstraint(
                        condition=django_nobroker.constraints.ValidTime("created_at"),
                        name="nobroker_job_created_at_valid",
                    ),
                    models.CheckConstraint(
                        condition=django_nobroker.constraints.ValidTime("finished_at"),
                        name="nobroker_job_finished_at_valid",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Attempt",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("fence", models.BigIntegerField()),
                ("number", models.SmallIntegerField()),
                (
                    "worker",
                    django_nobroker.fields.KeyField(blank=True, db_default="", max_length=190),
                ),
                ("started_at", django_nobroker.fields.UTCDateTimeField(blank=True, null=True)),
                (
                    "ended_at",
                    django_nobroker.fields.UTCDateTimeField(db_default=django_nobroker.clock.Now()),
                ),
                (
                    "error_class",
                    django_nobroker.fields.KeyField(blank=True, db_default="", max_length=200),
                ),
                ("message", django_nobroker.fields.RawTextField(blank=True, null=True)),
                ("traceback", django_nobroker.fields.RawTextField(blank=True, null=True)),
                (
                    "job",
                    models.ForeignKey(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="failed_attempts",
                        to="nobroker.job",
                    ),
                ),
            ],
            options={
                "db_table": "nobroker_attempt",
                "default_permissions": ("view",),
            },
        ),
        migrations.CreateModel(
            name="Minute",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("queue", django_nobroker.fields.KeyField(max_length=128)),
                ("minute", django_nobroker.fields.UTCDateTimeField()),
                ("done", models.IntegerField(db_default=0)),
                ("failed", models.IntegerField(db_default=0)),
                ("dead", models.IntegerField(db_default=0)),
                ("wait_seconds", models.FloatField(db_default=0.0)),
                ("run_seconds", models.FloatField(db_default=0.0)),
            ],
            options={
                "db_table": "nobroker_minute",
                "default_permissions": ("view",),
                "constraints": [
                    models.UniqueConstraint(fields=("queue", "minute"), name="nobroker_minute_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="QueueControl",
            fields=[
                (
                    "queue",
                    django_nobroker.fields.KeyField(
                        max_length=128, primary_key=True, serialize=False
                    ),
                ),
                (
                    "paused_by",
                    django_nobroker.fields.KeyField(blank=True, db_default="", max_length=190),
                ),
                (
                    "paused_at",
                    django_nobroker.fields.UTCDateTimeField(db_default=django_nobroker.clock.Now()),
                ),
            ],
            options={
                "db_table": "nobroker_queue",
                "permissions": (("pause_queue", "Can pause and resume queues"),),
                "default_permissions": ("view",),
                "constraints": [
                    models.CheckConstraint(
                        condition=django_nobroker.constraints.ValidName("queue"),
                        name="nobroker_queue_named",
                    )
                ],
            },
        ),
        migrations.RunPython(tune, migrations.RunPython.noop),
    ]
