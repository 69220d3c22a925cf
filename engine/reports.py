"""CommitReports: what committed transactions did, brought to the queues, topics and schedules that it concerns.

Invariant: whatever a report says of a queue is applied before this returns. So a receiver that asks after the commit
finds nothing that the commit has ended.
"""

from __future__ import annotations

from engine.model.commit_report import CommitReport
from engine.model.queue import QueueName
from engine.queues import Queues
from engine.schedules.schedules import Schedules
from engine.topics.topics import Topics


class CommitReports:
    """See the module."""

    def __init__(self, queues: Queues, topics: Topics, schedules: Schedules) -> None:
        self._queues, self._topics, self._schedules = queues, topics, schedules

    def apply(self, report: CommitReport, *, here: bool) -> None:
        """Cheap; names of no queue are ignored. `here`: of a client of this engine, not of a neighbour."""
        postponed: set[QueueName] = set()
        for name, ids in report.settled.items():
            if services := self._queues.get(name):
                services.manager.commits.settled(ids, here=here)
                services.changes.count += 1
        for name, ids in report.changed.items():
            if services := self._queues.get(name):
                services.changes.count += 1
                if here and name in report.touched and services.manager.commits.may_be_spent(ids):
                    services.mover.notify()
                # Only what gives leases up lets other messages be claimed; a renewal does not.
                renewed, reported = name not in report.touched, report.postponed.get(name)
                if reported and not renewed and services.manager.commits.postponed(ids, reported):
                    postponed.add(name)
                    continue
                until_known = reported is not None
                services.manager.commits.changed(ids, renewed=renewed, here=here, until_known=until_known)
        for name in report.uncertain:
            if services := self._queues.get(name):
                services.manager.commits.uncertain()
                services.changes.count += 1
        for name in report.rejected if here else ():
            if services := self._queues.get(name):
                services.mover.notify()
        for name in report.touched - postponed:
            if services := self._queues.get(name):
                if name in report.overdue:
                    services.manager.commits.overdue()
                services.manager.touched(report.added.get(name, ()))
                services.changes.count += 1
            else:
                self._schedules.touched(name)
                self._touched_topic(name)

    def sooner(self, report: CommitReport) -> frozenset[QueueName]:
        """The queues where a RENEW has ended a lease sooner, or may have: receivers wait for its message until the old
        end."""
        return frozenset(
            name for name in report.renewed if name not in report.touched and self._ends_sooner(name, report)
        )

    def _ends_sooner(self, name: QueueName, report: CommitReport) -> bool:
        services = self._queues.get(name)
        if services is None:
            return False
        if (reported := report.postponed.get(name)) is not None:
            sooner = services.manager.commits.ends_sooner(report.changed[name], reported)
            if sooner is not None:
                return sooner
        return report.renewed[name] < services.manager.queue.options.ack_wait_ns

    def lost(self) -> None:
        """Notifications of a neighbour were lost: anything may have been committed."""
        names = frozenset(self._queues.by_name)
        self.apply(CommitReport(touched=names, uncertain=names, overdue=names), here=False)
        self._topics.on_remote_commits_lost()
        self._schedules.reload()

    def _touched_topic(self, name: QueueName) -> None:
        """Messages were added to a topic: its groups may read on."""
        self._topics.touched(name)
        for group in self._topics.active_groups(name):
            services = self._queues.get(group)
            if services is None or not (services.manager.touched() or services.manager.subscriptions):
                self._topics.remove_group(name, group)
