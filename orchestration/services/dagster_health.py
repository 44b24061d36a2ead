"""The health of a running Dagster, from the API that its own UI uses."""

import json
import urllib.request
from dataclasses import dataclass
from typing import Any

_QUERY = """
{
  instance { daemonHealth { allDaemonStatuses { daemonType required healthy } } }
  workspaceOrError {
    ... on Workspace {
      locationEntries {
        name
        loadStatus
        locationOrLoadError { __typename ... on PythonError { message } }
      }
    }
    ... on PythonError { message }
  }
}
"""
_ANSWER_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DagsterHealth:
    """The health of Dagster: what it still waits for, and what stays broken until the project is changed."""

    answers: bool
    waits_for: tuple[str, ...] = ()
    broken: str = ""

    @property
    def ready(self) -> bool:
        """Whether the UI answers, the code is loaded and every required daemon is healthy."""
        return self.answers and not self.waits_for and not self.broken


def ask_health(url: str, token: str) -> DagsterHealth:
    """Query the server once; one that does not answer yet is not ready, which is no error."""
    request = urllib.request.Request(  # noqa: S310 - the address is our own
        f"{url}/graphql",
        data=json.dumps({"query": _QUERY}).encode(),
        headers={"Content-Type": "application/json", "Authorization": f"Bearer {token}"},
    )
    try:
        with urllib.request.urlopen(request, timeout=_ANSWER_SECONDS) as answer:  # noqa: S310
            return parse_health(json.load(answer)["data"])
    except (OSError, ValueError, KeyError, TypeError):
        return DagsterHealth(answers=False, waits_for=("the web server",))


def parse_health(answer: dict[str, Any]) -> DagsterHealth:
    workspace = answer["workspaceOrError"]
    if "message" in workspace:
        return DagsterHealth(answers=True, broken=_first_line(workspace["message"]))
    entries = workspace.get("locationEntries", [])
    faults = [
        f"{entry['name']}: {_first_line(entry['locationOrLoadError']['message'])}"
        for entry in entries
        if (entry["locationOrLoadError"] or {}).get("__typename") == "PythonError"
    ]
    loading = [f"the code of {e['name']}" for e in entries if e["loadStatus"] != "LOADED"]
    daemons = [
        f"the {status['daemonType'].lower().replace('_', ' ')} daemon"
        for status in answer["instance"]["daemonHealth"]["allDaemonStatuses"]
        if status["required"] and not status["healthy"]
    ]
    return DagsterHealth(answers=True, waits_for=(*loading, *daemons), broken="; ".join(faults))


def _first_line(message: str) -> str:
    return message.strip().splitlines()[0] if message.strip() else "no cause given"
