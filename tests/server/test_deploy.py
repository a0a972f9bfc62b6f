"""What is deployed names what exists: files, ports, volumes, secrets, and metrics of the server."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

from judges.engines.engine import Usage
from magistrate.cli.main import app
from server.metrics import Metrics

ROOT = Path(__file__).parents[2]
BOARD = ROOT / "docs" / "grafana.json"


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text())


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions and their arguments, without comments and with continued lines joined."""
    lines = (ROOT / "Dockerfile.gpu").read_text().replace("\\\n", " ").splitlines()
    found = [line.strip().split(maxsplit=1) for line in lines if line.strip() and not line.lstrip().startswith("#")]
    return [(name, rest) for name, rest in found]


def of(name: str) -> list[str]:
    return [rest for found, rest in instructions() if found == name]


def options_of(command: list[str]) -> list[str]:
    return [word for word in command if word.startswith("--")]


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    found: dict[str, Any] = read("compose.yaml")
    return found


@pytest.fixture(scope="module")
def labels() -> dict[str, set[str]]:
    """The labels of every metric that the server has, by the names that a query gives it."""
    metrics = Metrics()
    metrics.watch_queue(lambda: {"m": 1})
    metrics.judged("j", "scored", 1.0, "now")
    metrics.tokens("m", Usage(1, 1, 1))
    metrics.answered("/r", "GET", 200, 1.0)
    metrics.engine_restarted("m")
    metrics.model_is("m", "ready")
    metrics.recorded(1, 1.0)
    families = text_string_to_metric_families(metrics.exposition()[0].decode())
    return {sample.name: set(sample.labels) for family in families for sample in family.samples}


def queries() -> list[str]:
    panels = json.loads(BOARD.read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel["targets"]]


def test_everything_that_the_dockerfile_copies_exists_and_is_sent_to_the_build() -> None:
    allowed = {line[1:] for line in (ROOT / "Dockerfile.gpu.dockerignore").read_text().splitlines() if line.startswith("!")}
    sources = {source for copied in of("COPY") for source in copied.split()[:-1]}
    assert sources == allowed
    assert all((ROOT / source).exists() for source in sources)


def test_every_package_of_the_project_is_copied() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    included = re.search(r"^include = \[(.*)\]$", text, re.MULTILINE)
    assert included is not None
    packages = set(re.findall(r'"(\w+)\*"', included[1]))
    assert packages <= {source for copied in of("COPY") for source in copied.split()[:-1]}


def test_the_image_holds_a_vllm_that_the_project_runs_on() -> None:
    (image,) = of("FROM")
    found = re.fullmatch(r"vllm/vllm-openai:v(\d+)\.(\d+)\.(\d+)", image)
    assert found is not None, "the tag must be one version"
    claimed = re.search(r'^gpu = \["vllm>=(\d+)\.(\d+),<(\d+)\.(\d+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert claimed is not None
    version = tuple(map(int, found.groups()[:2]))
    assert tuple(map(int, claimed.groups()[:2])) <= version < tuple(map(int, claimed.groups()[2:]))


def test_the_image_runs_as_a_user_of_its_own() -> None:
    names = [name for name, _ in instructions()]
    (user,) = of("USER")
    assert user not in ("root", "0")
    assert user in of("RUN")[-1]
    assert names.index("USER") < names.index("ENTRYPOINT")


def test_the_image_starts_a_command_that_exists(compose: dict[str, Any]) -> None:
    (entry,), (usual,) = of("ENTRYPOINT"), of("CMD")
    assert json.loads(entry) == ["magistrate"]
    for command in (json.loads(usual), compose["services"]["server"]["command"]):
        assert command[0] == "serve"
        told = CliRunner(env={"COLUMNS": "200", "TERM": "dumb"}).invoke(app, [command[0], "--help"])
        assert told.exit_code == 0
        plain = re.sub(r"\x1b\[[0-9;]*m", "", told.output)
        assert options_of(command)
        assert all(f"{option} " in plain for option in options_of(command))


def test_the_image_s_folders_are_those_that_are_mounted(compose: dict[str, Any]) -> None:
    (declared,) = of("VOLUME")
    mounted = {volume.split(":")[1] for volume in compose["services"]["server"]["volumes"]}
    assert set(json.loads(declared)) == mounted
    made = shlex.split(of("RUN")[-1])
    assert set(json.loads(declared)) <= set(made)


def test_ports_agree(compose: dict[str, Any]) -> None:
    (port,) = of("EXPOSE")
    (health,) = of("HEALTHCHECK")
    command = compose["services"]["server"]["command"]
    assert command[command.index("--port") + 1] == port
    assert f"'127.0.0.1', {port}" in health
    assert "'/health'" in health
    targets = read("deploy/prometheus.yml")["scrape_configs"][0]["static_configs"][0]["targets"]
    assert targets == [f"server:{port}"]


def test_nothing_is_published_beyond_this_machine(compose: dict[str, Any]) -> None:
    published = [port for service in compose["services"].values() for port in service.get("ports", ())]
    assert published
    assert all(re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port) for port in published)
    assert "ports" not in compose["services"]["postgres"]


def test_compose_names_what_exists(compose: dict[str, Any]) -> None:
    services = compose["services"]
    assert (ROOT / services["server"]["build"]["dockerfile"]).is_file()
    for service in services.values():
        assert set(service.get("depends_on", ())) <= set(services)
        assert set(service.get("secrets", ())) <= set(compose["secrets"])
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert (ROOT / source).is_file() if source.startswith("./") else source in compose["volumes"]


def test_every_image_has_a_version(compose: dict[str, Any]) -> None:
    foreign = [service["image"] for service in compose["services"].values() if "build" not in service]
    assert all(re.search(r":v?\d+\.\d+", image) for image in foreign)


def test_the_server_waits_for_its_database(compose: dict[str, Any]) -> None:
    services = compose["services"]
    assert services["server"]["depends_on"]["postgres"] == {"condition": "service_healthy"}
    assert services["postgres"]["healthcheck"]["test"][1] == "pg_isready"
    url = services["server"]["command"][-1]
    made = services["postgres"]["environment"]
    assert url == f"postgresql://{made['POSTGRES_USER']}@postgres/{made['POSTGRES_DB']}"
    assert services["server"]["environment"]["PGPASSWORD"] == made["POSTGRES_PASSWORD"]


def test_prometheus_reads_its_key_from_the_secret(compose: dict[str, Any]) -> None:
    (job,) = read("deploy/prometheus.yml")["scrape_configs"]
    (secret,) = compose["services"]["prometheus"]["secrets"]
    assert job["authorization"] == {"type": "Bearer", "credentials_file": f"/run/secrets/{secret}"}
    assert job["metrics_path"] == "/metrics"


def test_grafana_finds_prometheus_and_the_board(compose: dict[str, Any]) -> None:
    (source,) = read("deploy/grafana/datasource.yml")["datasources"]
    assert source["type"] == "prometheus"
    host, port = re.fullmatch(r"http://(\w+):(\d+)", source["url"]).groups()  # type: ignore[union-attr]
    assert compose["services"][host]["ports"] == [f"127.0.0.1:{port}:{port}"]
    (provider,) = read("deploy/grafana/boards.yml")["providers"]
    mounted = dict(volume.split(":")[:2] for volume in compose["services"]["grafana"]["volumes"])
    assert str(Path(mounted[f"./{BOARD.relative_to(ROOT)}"]).parent) == provider["options"]["path"]


@pytest.mark.parametrize("query", queries())
def test_every_query_of_the_board_asks_for_what_the_server_counts(query: str, labels: dict[str, set[str]]) -> None:
    named = re.findall(r"magistrate_\w+", query)
    assert named
    assert set(named) <= set(labels)
    known = set().union(*(labels[name] for name in named))
    asked = re.findall(r"(\w+)=~?\"", query)
    asked += [label.strip() for group in re.findall(r"by \(([^)]*)\)", query) for label in group.split(",")]
    assert set(asked) <= known
    assert ("histogram_quantile" in query) == any(name.endswith("_bucket") for name in named)


def test_the_board_shows_every_metric_of_ours(labels: dict[str, set[str]]) -> None:
    shown = {name for query in queries() for name in re.findall(r"magistrate_\w+", query)}
    bases = {re.sub(r"_(bucket|count|sum|created)$", "", name) for name in labels}
    wanted = {base for base in bases if not base.startswith("magistrate_process_")}
    wanted = {base for base in wanted if f"{base}_total" not in wanted}
    assert wanted <= {re.sub(r"_bucket$", "", name) for name in shown}


def test_legends_of_the_board_name_labels_that_their_query_keeps() -> None:
    for panel in json.loads(BOARD.read_text())["panels"]:
        for target in panel["targets"]:
            kept = {label.strip() for group in re.findall(r"by \(([^)]*)\)", target["expr"]) for label in group.split(",")}
            used = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            assert used <= kept | ({"instance"} if not kept else set())
