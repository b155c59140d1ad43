"""Starting the Python kernel: a fork of the agent, which saves a second interpreter's start (45 ms, 6 MB)."""

from __future__ import annotations

from dayfly.agent.kernels.codec import Codec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dayfly.agent.kernels.codec import Launch
    from dayfly.agent.supervisor import Child


class PythonCodec(Codec):
    takes_environment = True
    renews = True

    def start(self, launch: Launch) -> Child:
        control, environment, home = launch.control, launch.environment, launch.supervisor.home

        def become() -> None:
            from dayfly.agent.kernels import python_driver  # in the child: the agent has no use for it

            python_driver.main(control, environment, home)

        child = launch.supervisor.fork(
            become, tag=launch.tag, stdio=launch.stdio, keep=(control,), on_exit=launch.on_exit
        )
        launch.on_started(None)
        return child
