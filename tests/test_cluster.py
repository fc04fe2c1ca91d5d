"""A cluster of separate processes: its workers' own settings do not reach the results; job files are well-formed."""

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys

import dask
import pandas as pd
import pytest
import yaml

import toy
from machinery import cli, cluster, replicates
from machinery.settings import project_root
from pdevae.errors import UserError

BENCHMARKS = project_root() / "benchmarks"


def load(path):
    spec = importlib.util.spec_from_file_location(f"benchmark_{path.stem}", path)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


benchmark = load(BENCHMARKS / "cluster.py")


def test_separate_workers_of_any_setting_give_the_bits_of_a_local_run(capsys, monkeypatch):
    """Real replicates, and one whose last bits depend on threads: a worker set otherwise, against one of ours."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(benchmark.TESTS), os.environ.get("PYTHONPATH", "")]))
    smaller = [(function, config | dict(nodes=150)) for function, config in benchmark.SMALL]
    work = [*smaller, (toy.bits, {})]
    local = benchmark.results(work, seeds=1, jobs=1)
    with benchmark.separate_cluster(1, benchmark.STRANGE) as address:
        cli._announce(address, jobs=0)
        assert f"replicates run on {address}: 1 worker, dashboard http://127.0.0.1:" in capsys.readouterr().out
        outside = benchmark.results(work, seeds=1, scheduler=address)
    for (function, config), one, other in zip(work, local, outside):
        assert benchmark.same_bits(one, other), (function.__name__, config)


@pytest.mark.parametrize(
    ("options", "environment", "says"),
    [
        (("--nthreads", "2"), {}, "runs 2 replicates in one process: start it with --nthreads 1 --nworkers 2"),
        (("--nthreads", "1", "--no-nanny"), {"OMP_NUM_THREADS": "4"}, "different .*OMP_NUM_THREADS.* has no nanny"),
    ],
)
def test_workers_that_cannot_be_mended_are_refused(options, environment, says):
    with benchmark.separate_cluster(1, environment, options) as address, benchmark.runner_set_to(scheduler=address):
        with pytest.raises(UserError, match=says):
            replicates.run(toy.arrays, [{}], [0])
        cluster.client().close()


def test_a_worker_that_joins_later_is_set_as_it_starts():
    with benchmark.separate_cluster(0) as address, cluster.open_cluster(address) as client:
        command = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1"]
        surroundings = os.environ | benchmark.STRANGE
        late = subprocess.Popen(command, env=surroundings, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            client.wait_for_workers(1, timeout=60)
            found = {name: [*client.run(os.getenv, name).values()] for name in cluster.ENVIRONMENT}
        finally:
            late.terminate()
            benchmark.ended(late)
    assert found == {name: [value] for name, value in cluster.ENVIRONMENT.items()}


@pytest.mark.skipif(not shutil.which("openssl"), reason="needs openssl")
def test_a_cluster_over_tls_serves_whoever_has_a_certificate_and_nobody_else(tmp_path, capsys):
    subprocess.run([BENCHMARKS / "cluster" / "certificates.sh", tmp_path / "tls"], check=True, stdout=subprocess.PIPE)
    lines = (tmp_path / "tls" / "environment").read_text().splitlines()
    named = {
        name: value.strip("'") for name, _, value in (line.removeprefix("export ").partition("=") for line in lines)
    }
    assert (tmp_path / "tls" / "key.pem").stat().st_mode & 0o077 == 0
    ours = {name.removeprefix("DASK_").lower().replace("__", "."): value for name, value in named.items()}
    with dask.config.set(ours), benchmark.separate_cluster(1, named) as address:
        assert address.startswith("tls://")
        cli._announce(address, jobs=0)
        assert f"replicates run on {address}: 1 worker" in capsys.readouterr().out
        with benchmark.runner_set_to(scheduler=address):
            assert len(replicates.run(toy.arrays, [{}], [0, 1])) > 0
            cluster.client().close()
        with dask.config.set(dict.fromkeys(ours) | {"distributed.comm.default-scheme": "tcp"}):
            with pytest.raises(UserError, match="needs certificates"):
                cluster.open_cluster(address)
            with pytest.raises(UserError, match="no Dask scheduler answers"):
                cluster.open_cluster(address.replace("tls://", "tcp://"))


def test_without_certificates_no_client_is_made(monkeypatch):
    """Half made, it would wait for a lock of Dask's as it is deleted, under which the next client may be starting."""
    monkeypatch.setattr(cluster, "Client", lambda *arguments, **settings: pytest.fail("a client was made"))
    with pytest.raises(UserError, match="needs certificates"):
        cluster.open_cluster("tls://127.0.0.1:9")


def test_a_local_run_says_that_it_is_one(capsys):
    cli._announce("", jobs=3)
    assert "replicates run on this machine, 3 at a time" in capsys.readouterr().out


def test_the_job_for_slurm_is_sound():
    script = BENCHMARKS / "cluster" / "slurm.sh"
    subprocess.run(["bash", "-n", script], check=True)
    if shutil.which("shellcheck"):
        subprocess.run(["shellcheck", script], check=True)
    asked = [line for line in script.read_text().splitlines() if line.startswith("#SBATCH")]
    assert {line.split("=")[0] for line in asked} >= {"#SBATCH --ntasks", "#SBATCH --mem-per-cpu", "#SBATCH --time"}


def test_the_job_for_slurm_runs_scheduler_workers_and_notebooks(tmp_path):
    """With an ``srun`` that starts the tasks here, and a ``run_all.sh`` that computes on them."""
    asks = (
        "import sys; from distributed import Client; print(Client(sys.argv[2]).submit(abs, -7).result(), sys.argv[3:])"
    )
    programs = {
        "bin/srun": 'trap "kill \\$(jobs -p)" TERM; shift 2; "$@" & "$@" & wait',
        ".venv/bin/dask": f'exec {sys.executable} -m dask "$@"',
        ".venv/bin/python": f'exec {sys.executable} "$@"',
        "run_all.sh": f'exec {sys.executable} -c "{asks}" "$@"',
    }
    for name, text in programs.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/usr/bin/env bash\n{text}\n")
        path.chmod(0o755)
    job = {"SLURM_SUBMIT_DIR": str(tmp_path), "SLURM_JOB_ID": "1", "SLURM_NTASKS": "3", "TMPDIR": str(tmp_path)}
    job["PATH"] = os.pathsep.join([str(tmp_path / "bin"), os.environ["PATH"]])
    command = ["bash", BENCHMARKS / "cluster" / "slurm.sh", "--profile", "paper"]
    with (tmp_path / "said").open("w") as said:
        process = subprocess.Popen(command, env=os.environ | job, stdout=said, stderr=said, start_new_session=True)
    try:
        code = process.wait(timeout=100)
    finally:  # SLURM ends what a job leaves behind, here a worker that does not stop
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    said = (tmp_path / "said").read_text()
    assert code == 0, said
    assert "7 ['--profile', 'paper']" in said
    assert not list((tmp_path / "build").glob("scheduler-*"))


def test_the_kubernetes_resources_fit_together():
    text = (BENCHMARKS / "cluster" / "kubernetes.yaml").read_text()
    resources = {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(text)}
    assert {kind for kind, _ in resources} == {"PersistentVolumeClaim", "Service", "Deployment", "Job"}
    service = resources["Service", "pdevae-scheduler"]["spec"]
    pods = {}
    for (kind, name), one in resources.items():
        if kind in ("Deployment", "Job"):
            pods[name] = one["spec"]["template"]
            if kind == "Deployment":
                assert one["spec"]["selector"]["matchLabels"] == pods[name]["metadata"]["labels"]
    assert service["selector"] == pods["pdevae-scheduler"]["metadata"]["labels"]
    ports = {port["containerPort"] for port in pods["pdevae-scheduler"]["spec"]["containers"][0]["ports"]}
    assert {port["targetPort"] for port in service["ports"]} == ports
    for pod in pods.values():
        (container,) = pod["spec"]["containers"]
        subprocess.run(["bash", "-n", "-c", container["args"][0]], check=True)
        assert container["volumeMounts"][0]["mountPath"] == container["workingDir"]
        assert pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] == "pdevae"
    for name in ("pdevae-worker", "pdevae-run"):
        assert "tcp://pdevae-scheduler:8786" in pods[name]["spec"]["containers"][0]["args"][0]


def test_jobqueue_writes_a_job_script_or_says_what_is_missing():
    command = [sys.executable, BENCHMARKS / "cluster" / "jobqueue.py", "--script"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if importlib.util.find_spec("dask_jobqueue") is None:
        assert done.returncode == 1
        assert done.stderr.strip() == "error: dask-jobqueue is not installed: .venv/bin/pip install dask-jobqueue"
    else:
        assert "#SBATCH --cpus-per-task=1" in done.stdout
        assert "--nthreads 1" in done.stdout


def test_costs_beyond_what_was_measured_follow_a_fitted_power():
    estimate = load(BENCHMARKS / "cluster_estimate.py")
    nodes = pd.Series([100, 1000, 3000, 10_000] * 2)
    law = estimate.PowerLaw.fitted(nodes, 2e-3 * nodes**1.2, worst=1.5)
    assert law.at(1000) == pytest.approx([2e-3 * 1000**1.2] * 3)
    low, middle, high = law.at(1_000_000)
    assert [low, middle] == pytest.approx([2e-3 * 1e6**1.2] * 2)
    assert high == pytest.approx(2e-3 * 1e4**1.2 * 100**1.5)
    assert estimate.makespan([3.0, 1.0] + [0.5] * 98) == 3.0
    assert estimate.makespan([1.0] * 101) == 2.0
