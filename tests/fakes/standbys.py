"""A secondary in a real control store whose process is this one: it has on what it is told to."""

from ft_policies.tiers import SECONDARY, Switches, Tier
from resources.control.records import ReplicaRow, ReplicaState, Slot
from resources.launcher import Launched
from streaming.launching import HOST
from streaming.world import World


def a_secondary(
    world: World,
    stream: str,
    *,
    observed: Switches = SECONDARY[Tier.ACTIVE_STANDBY],
    desired: Switches | None = None,
    state: ReplicaState = ReplicaState.RUNNING,
    epoch: int | None = 0,
    name: str = "s1",
) -> ReplicaRow:
    """A live secondary with these switches; it desires what it has unless told otherwise."""
    replicas = world.store.replicas
    registered = replicas.register(
        id=name,
        stream=stream,
        slot=Slot.SECONDARY,
        desired=observed if desired is None else desired,
        host=HOST,
        folder=str(world.project.home / "replicas" / name),
    )
    assert registered is not None, "the slot is taken"
    this = Launched.this()
    replicas.launched(name, pid=this.pid, pid_started_at=this.started_at)
    return replicas.heartbeat(
        name,
        state=state,
        observed=observed,
        observed_generation=1,
        snapshot_served=0,
        epoch=epoch,
    )
