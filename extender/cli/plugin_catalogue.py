"""What ``check`` may find in a kube-scheduler that is built with the plugin."""

from __future__ import annotations

from extender.cli.rule import Rule

PLUGIN_RULES = {
    "plugin-args": Rule(
        "error",
        "the plugin refuses its arguments, so kube-scheduler does not start",
        "write what docs/plugin.md lists under 'How to configure'",
    ),
    "plugin-points": Rule(
        "error",
        "seats are not guarded there; the plugin sees that it is missing and schedules nothing, or "
        "is not there at all",
        "enable PodGroupExtender at multiPoint, and disable it at no extension point",
    ),
    "plugin-preemption": Rule(
        "error",
        "it evicts pod by pod without asking, so the plugin schedules nothing beside it",
        "disable DefaultPreemption at multiPoint: the plugin takes its place",
    ),
    "plugin-binder": Rule(
        "error",
        "members are bound one by one, without the extender, so the plugin schedules nothing",
        "write plugins.bind.enabled: [{{name: PodGroupExtender}}] and enable it at multiPoint too",
    ),
    "plugin-profile": Rule(
        "error",
        "its pods take the room of promised seats, and it evicts pod by pod and breaks gangs",
        "enable the plugin in every profile",
    ),
    "plugin-profiles": Rule(
        "hint",
        "each has a mirror and a barrier of its own: a gang whose members name several of them "
        "waits for itself",
        "give all members of a gang one scheduler name",
    ),
    "plugin-twice": Rule(
        "error",
        "kube-scheduler asks about each pod over HTTP as well: pods of no gang pay for calls that "
        "the plugin spares them, and members are sent elsewhere when two answers differ",
        "remove the entry; the plugin has all its verbs",
    ),
    "plugin-filter": Rule(
        "hint",
        "it is asked after the plugin, which does not know the nodes that it removes: a seat there "
        "is refused first, then another plan is searched for",
        "nothing, if it removes few nodes",
    ),
    "plugin-other-binder": Rule(
        "error",
        "kube-scheduler has extenders bind before any plugin, so members do not wait for "
        "each other",
        "limit it by managedResources to pods of no gang, or use barrier: Permit",
    ),
    "plugin-unserved": Rule(
        "error",
        "no server listens there, so nothing is scheduled",
        "set grpc.listen in the extender's configuration",
    ),
    "plugin-address": Rule(
        "error",
        "no server listens there, so nothing is scheduled",
        "write address: {target}",
    ),
    "plugin-port": Rule(
        "hint",
        "unless a proxy translates it, no server listens there and nothing is scheduled",
        "write port {port}",
    ),
    "plugin-plain": Rule(
        "error",
        "an attacker on the network could hide reservations, so kube-scheduler does not start",
        "set caFile, certFile and keyFile, or use a Unix socket or loopback",
    ),
    "plugin-tls": Rule(
        "error",
        "no connection is made, so nothing is scheduled",
        "{advice}",
    ),
    "plugin-elsewhere": Rule(
        "warning",
        "while the extender is away, pods of no gang take nodes that were freed for a gang: more "
        "is evicted for it later, or it is given up",
        "write whenCut: Hold unless that is meant",
    ),
    "plugin-call-short": Rule(
        "error",
        "the plugin gives a call up while the search still runs, and the pod's attempt ends in an "
        "error although a plan was on its way",
        "raise callTimeout to {enough:.1f}s or more, or lower plan.seconds",
    ),
    "plugin-call-long": Rule(
        "warning",
        "calls run inside kube-scheduler's single scheduling loop: a hanging extender stops all "
        "scheduling for that long with every member of a gang",
        "lower it to a little above plan.seconds ({searching:g} s)",
    ),
    "plugin-barrier-long": Rule(
        "warning",
        "the reservations are returned while members still wait for the others",
        "lower barrierTimeout below seats.bindSeconds ({seconds:g} s)",
    ),
    "plugin-barrier-short": Rule(
        "error",
        "the plugin gives a held bind up before it is answered, so a gang whose last member is "
        "slow never starts",
        "raise barrierTimeout to {enough:g}s or more, or lower bind.holdSeconds",
    ),
    "plugin-bind": Rule(
        "error",
        "the extender serves no bindings, so no member of a gang ever starts",
        "set bind.enabled: true and apply manifests/barrier/rbac.yaml, or write barrier: Permit",
    ),
    "plugin-bind-unused": Rule(
        "warning",
        "the extender may bind and is never asked to",
        "write barrier: Bind, or set bind.enabled: false and take the right away",
    ),
}
"""On the plugin (docs/plugin.md)."""
