"""How orchestrators are reached, and how patient with them the collector is."""

from typing import Annotated, Literal

from msgspec import Meta, field

from collector.config.section import Section


class DriverConfig(Section, frozen=True):
    """Who carries out what was decided."""

    name: Annotated[
        Literal["none", "swarm", "docker", "kubernetes"],
        Meta(
            description="`none` only shows what it would do. `swarm` asks a manager, `docker` the engine of"
            " each host, `kubernetes` the API server (install wattpack[kubernetes])."
        ),
    ] = "none"
    managers: Annotated[
        str,
        Meta(
            description="Swarm's managers, separated by commas, such as unix:///var/run/docker.sock or"
            " tcp://10.0.0.1:2376; the next is asked where one does not answer."
        ),
    ] = "unix:///var/run/docker.sock"
    engines: Annotated[
        dict[str, str],
        Meta(
            description='`[driver.engines]`, a line per host, such as web1 = "tcp://10.0.0.11:2376": for'
            " `docker` all hosts, for `swarm` those where limits may be cut."
        ),
    ] = field(default_factory=dict)
    ca_file: Annotated[
        str, Meta(description="Who signs the certificates of tcp:// addresses, in PEM; empty is no TLS.")
    ] = ""
    cert_file: Annotated[str, Meta(description="The certificate to show there, in PEM.")] = ""
    key_file: Annotated[str, Meta(description="The key of `cert_file`, unless that holds it too.")] = ""
    kubeconfig: Annotated[
        str,
        Meta(
            description="The file that says how to reach Kubernetes; empty takes what a pod is given, or"
            " else what kubectl would take."
        ),
    ] = ""
    request_seconds: Annotated[float, Meta(gt=0, le=600, description="Patience with one request.")] = 10.0
    healthy_seconds: Annotated[
        float,
        Meta(
            gt=0,
            le=3600,
            description="What starts anew must be healthy within this time, or all is put back.",
        ),
    ] = 60.0
    watch_seconds: Annotated[
        float, Meta(ge=0, le=600, description="It must stay so for this long to count as moved.")
    ] = 5.0
    empty_seconds: Annotated[
        float, Meta(gt=0, le=86_400, description="A node must be empty so long after it was drained.")
    ] = 300.0
    refuse_seconds: Annotated[
        float,
        Meta(
            ge=0,
            le=86_400,
            description="What is moved away from a node is kept from it for so long by every hint, and by"
            " Kubernetes' scheduler where that asks the extender.",
        ),
    ] = 600.0
    power_off_command: Annotated[
        str,
        Meta(description="Switches a node off; its name is added as the last argument. Empty never does."),
    ] = ""
    power_on_command: Annotated[str, Meta(description="Switches a node on, likewise.")] = ""
    power_grace_seconds: Annotated[
        float, Meta(ge=0, le=3600, description="Between the end of its last container and that command.")
    ] = 10.0
    power_seconds: Annotated[
        float,
        Meta(gt=0, le=86_400, description="Such a command, and then the node, may take so long each."),
    ] = 300.0

    @property
    def manager_addresses(self) -> tuple[str, ...]:
        """`managers` one by one."""
        return tuple(address for each in self.managers.split(",") if (address := each.strip()))
