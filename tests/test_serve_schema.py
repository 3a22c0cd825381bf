"""The OpenAPI description, taken at its word by schemathesis: whatever it makes up, no answer is an error of ours."""

import subprocess
import sys
from pathlib import Path

import pytest
from serving import begun, service

pytestmark = pytest.mark.xdist_group("serve")
CHECKS = (
    "not_a_server_error", "status_code_conformance", "content_type_conformance", "response_headers_conformance",
    "response_schema_conformance", "unsupported_method", "use_after_free", "ensure_resource_availability",
)  # fmt: skip


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("serve")
    with service([begun(folder, "mtnet")], watch=folder, points=16, queries=16, samples=1) as (url, _):
        yield url


def generated(url: str, folder: Path, *options: str) -> None:
    tool = Path(sys.executable).with_name("schemathesis")
    if not tool.exists():
        pytest.skip("schemathesis is not installed")
    how = ["--checks", ",".join(CHECKS), "--no-color", "--request-timeout", "60", "--suppress-health-check", "all"]
    command = [str(tool), "run", f"{url}/openapi.json", *how, *options]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr


def test_made_up_requests(url, tmp_path):
    generated(url, tmp_path, "--phases", "fuzzing", "--max-examples", "5", "--seed", "1")


@pytest.mark.slow
def test_many_made_up_requests_and_sequences_of_them(url, tmp_path):
    generated(url, tmp_path, "--max-examples", "200", "--continue-on-failure")
