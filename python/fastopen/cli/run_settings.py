"""Define the options that `fastopen run` and `fastopen reproduce` share: repeats, output, files to keep."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from fastopen.cli.commands.report import ReportOption
from fastopen.cli.output import print_message
from fastopen.cli.running import Printing, on_workers, run_and_print
from fastopen.cli.shared_options import (
    JobsOption,
    JsonOption,
    KeepGoingOption,
    KernelOption,
    PlotOption,
    QuietOption,
    StoreOption,
    WorkersOption,
    check_label,
    check_plot,
)
from fastopen.common.errors import InputError
from fastopen.experiments import (
    BASELINE,
    COMMAND_LINE,
    CONTROL,
    DRAWS,
    ArmName,
    Experiment,
    Shard,
    Variation,
    default_draws,
    exact_rows,
    with_changes,
)
from fastopen.experiments.model import REPEATS_MAX
from fastopen.experiments.plan import OPTION as SHARD_OPTION
from fastopen.pages import ImportedPage
from fastopen.runs import Watched
from fastopen.workflows.engines import auto_engine
from fastopen.workflows.quick import QUICK_S, REDUCIBLE, quickened
from fastopen.workflows.run import MAX_REPEATS, RunOptions, until_interval


@dataclass(frozen=True)
class RunSettings:
    """The options of a run, which `with_settings` adds to a command."""

    aa: Annotated[bool, Option("--aa", help="Load the baseline twice (A/A control), to show noise.")] = False
    repeats: Annotated[
        int | None,
        Option(
            "--repeats",
            "-n",
            help="Loads of each cell. (default: 10, or as the file; 30 with --vary; 1 if deterministic)",
        ),
    ] = None
    vary: Annotated[
        bool | None,
        Option(
            "--vary/--no-vary",
            help="Sample RTT, rates, think times and more for each repeat, to see how far the answer moves."
            " (default: with --report or --quick, if loads are otherwise deterministic)",
        ),
    ] = None
    quick: Annotated[
        bool,
        Option("--quick", help="Stop within a minute, after as many repeats as fit."),
    ] = False
    until_ci: Annotated[
        str | None, Option(metavar="1%", help="Repeat until each saving's 95 % interval is within this.")
    ] = None
    max_repeats: Annotated[
        int | None,
        Option(
            min=1,
            max=REPEATS_MAX,
            help=f"Upper limit of loads of each cell with --until-ci. (default: {MAX_REPEATS})",
        ),
    ] = None
    kernel: KernelOption = None
    jobs: JobsOption = None
    json: JsonOption = False
    output: Annotated[
        Path | None,
        Option(
            "--output",
            "-o",
            metavar="DIR",
            help="Folder of the run; resumes an unfinished one. (default: among your runs)",
        ),
    ] = None
    label: Annotated[str, Option(metavar="TEXT", help="Label of the run in ls.")] = ""
    no_keep: Annotated[bool, Option("--no-keep", help="Do not keep the run.")] = False
    keep_going: KeepGoingOption = False
    pcap: Annotated[
        bool, Option("--pcap", help="Keep packets of both ends for Wireshark, with names and TLS secrets.")
    ] = False
    tcp_trace: Annotated[
        bool,
        Option("--tcp-trace", help="Keep window, RTT and bytes in flight of the origins' TCP over time."),
    ] = False
    shard: Annotated[
        str | None,
        Option(metavar="I/N", help="Run part I of N, into the folder of -o; fastopen merge combines them."),
    ] = None
    store: StoreOption = None
    workers: WorkersOption = None
    report: ReportOption = False
    plot: PlotOption = False
    quiet: QuietOption = False

    def run(
        self,
        experiment: Experiment,
        imported: Sequence[ImportedPage],
        named: Collection[str] = REDUCIBLE,
        **others: Any,
    ) -> None:
        """Run the experiment and print its results.

        `named` lists the settings whose values `--quick` keeps, because the user gave them; by default,
        all in REDUCIBLE. `others` are further fields of RunOptions."""
        check_label(self.label, "--label")
        check_plot(plot=self.plot, json=self.json)
        if self.no_keep:
            self._check_not_kept()
        if self.max_repeats is not None and self.until_ci is None:
            raise InputError("needs --until-ci", "--max-repeats", "add it, or drop --max-repeats")
        shard = self._shard(experiment, seed_drawn=bool(others.get("seed_drawn")))
        if self.quick:
            if self.until_ci is not None:
                raise InputError("cannot be combined with --until-ci", "--quick", "drop one of them")
            experiment, left_out = quickened(experiment, imported, named, self.kernel, self.jobs)
            if left_out and not self.quiet:
                print_message(f"--quick: {'; '.join(left_out)}")
        experiment = self._with_draws(experiment, len(imported))
        options = RunOptions(
            output=self.output,
            keep=not self.no_keep,
            label=self.label,
            keep_going=self.keep_going,
            watched=Watched(packets=self.pcap, tcp_trace=self.tcp_trace),
            kernel=self.kernel,
            jobs=self.jobs,
            until=until_interval(self.until_ci, self.max_repeats or MAX_REPEATS, experiment.repeats),
            limit_s=QUICK_S if self.quick else None,
            samples_by_default=self.vary is None and self.repeats is None,
            shard=shard,
            store=self.store,
            **others,
        )
        asked = _with_control(experiment) if self.aa else experiment
        with on_workers(options, self.workers) as placed:
            run_and_print(asked, imported, placed, Printing(self.json, self.quiet, self.report, self.plot))

    def _check_not_kept(self) -> None:
        """Raise InputError if an option is set that has no effect on a run that is not kept on disk."""
        needing = {"--label": self.label, "--report": self.report, "--tcp-trace": self.tcp_trace}
        for name in filter(needing.get, needing):
            raise InputError("needs a kept run", name, "drop --no-keep")
        if self.output is not None and self.shard is None:
            raise InputError("cannot be combined with --no-keep", "--output", "drop one of them")

    def _shard(self, experiment: Experiment, *, seed_drawn: bool) -> Shard | None:
        """Return the part of the run that `--shard` requests, if any. `seed_drawn`: True if the user gave no
        seed. Raises InputError if another option forbids shards, or if shards would draw different seeds."""
        if self.shard is None:
            return None
        shard = Shard.parse(self.shard)
        whole = "use --repeats: only the whole run shows how wide the intervals are"
        for given, name, remedy in (
            (self.quick, "--quick", "drop one of them: --quick runs for a minute on one machine"),
            (self.until_ci, "--until-ci", whole),
            (self.report, "--report", "use fastopen report on the merged run, and --vary for samples"),
            (self.no_keep, "--no-keep", "drop it: a shard must be kept to be merged"),
        ):
            if given:
                raise InputError(f"cannot be combined with {name}", SHARD_OPTION, remedy)
        if self.output is None:
            raise InputError("needs a folder for the shard", SHARD_OPTION, "add -o DIR")
        if seed_drawn and not all(exact_rows(experiment, auto_engine(self.kernel))):
            remedy = "give all shards the same seed, such as --seed 1"
            raise InputError("each shard would draw its own seed", SHARD_OPTION, remedy)
        return shard

    def _with_draws(self, experiment: Experiment, pages: int) -> Experiment:
        """Return the experiment with the repeats and variation (`--vary`) that the options imply. `pages` is
        its page count. By default, `--report` and `--quick` imply `--vary` if repeats would be identical."""
        vary, repeats = experiment.vary, experiment.repeats
        by_default = (self.report or self.quick) and any(exact_rows(experiment, auto_engine(self.kernel)))
        if self.vary is False:
            vary = None
        elif vary is None and (self.vary or by_default):
            vary, repeats = Variation(), DRAWS
            if not self.vary and not self.quick and self.repeats is None:
                # A report on a large sweep has fewer samples, so that it does not take minutes.
                repeats = default_draws(experiment, pages, auto_engine(self.kernel))
                if repeats < DRAWS and not self.quiet:
                    usual = f"the usual number: --repeats {DRAWS}"
                    print_message(f"{repeats} samples, since the sweep is large; {usual}")
        changes = {"vary": vary, "repeats": repeats if self.repeats is None else self.repeats}
        return with_changes(experiment, changes, COMMAND_LINE)


def _with_control(experiment: Experiment) -> Experiment:
    if BASELINE.name not in experiment.arms:
        message = f"needs the transport {BASELINE.name}, which it loads twice"
        raise InputError(message, "--aa", f"add {BASELINE.name} to --transports")
    arms: list[ArmName] = [name for name in experiment.arms if name != CONTROL.name]
    arms.insert(arms.index(BASELINE.name) + 1, CONTROL.name)
    return experiment.model_copy(update={"arms": arms})
