"""For whom the extender acts, and whose pods it may evict: ``enforce`` of the settings.

A namespace that is not known (yet) is nobody's: its labels may say anything.
"""

from __future__ import annotations

from extender.fit.selectors import matches
from extender.model.snapshot import Snapshot
from extender.settings.mode import EnforceSettings

NOT_ENFORCED = "namespace {} is not among enforce.namespaces"


class Enforcement:
    """Answers for one configuration. Keeps nothing of the cluster."""

    def __init__(self, settings: EnforceSettings) -> None:
        self.everybody = settings.everybody
        """No namespace is left out: nobody has to ask."""
        self._selector = settings.namespaces.selector()
        self._all_victims = self.everybody or settings.victims == "all"

    def acts_for(self, namespace: str, snapshot: Snapshot) -> bool:
        """Whether gangs and pods of the namespace are planned for."""
        if self.everybody:
            return True
        labels = snapshot.namespaces.get(namespace)
        return labels is not None and matches(self._selector, labels)

    def may_evict(self, namespace: str, snapshot: Snapshot) -> bool:
        """Whether pods of the namespace may be victims of our plans."""
        return self._all_victims or self.acts_for(namespace, snapshot)
