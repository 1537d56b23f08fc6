//! Operations that are one command, without a server: `remem import --local` for its processor
//! time, and a few more for their instructions.

use super::Group;
use super::clock;
use super::figures::{FigureUnit, Measurement};
use super::instructions::Counter;
use super::round::Round;
use super::side::{DataPlace, Side};
use crate::corpus::MEMORY;
use crate::host::timed;
use std::path::Path;
use std::process::Command;

/// The command that imports the corpus.
pub fn import(place: &DataPlace, file: &Path) -> Command {
    let mut command = place.command();
    command
        .args(["--json", "import", "--ref", MEMORY])
        .arg(file);
    command
}

/// Runs a command; returns the processor time that it took, in microseconds.
pub fn processor_micros(command: Command) -> anyhow::Result<f64> {
    let before = clock::of_ended_children()?;
    timed(command)?;
    let used = clock::of_ended_children()? - before;
    Ok(used.as_secs_f64() * 1e6)
}

/// A command whose instructions are counted as one operation.
struct CountedCommand {
    name: &'static str,
    group: Group,
    args: &'static [&'static str],
}

const QUESTION: &str = "what did they do about the meeting with the customer?";

#[rustfmt::skip]
const COUNTED_COMMANDS: [CountedCommand; 7] = [
    CountedCommand { name: "put --local", group: Group::Puts,
        args: &["put", MEMORY, "The flight to Zürich leaves at nine."] },
    CountedCommand { name: "get --local", group: Group::Gets,
        args: &["get", MEMORY, "bench-0000007"] },
    CountedCommand { name: "list --local, limit 100", group: Group::Lists,
        args: &["list", MEMORY, "--limit", "100"] },
    CountedCommand { name: "search --local", group: Group::Searches,
        args: &["search", MEMORY, QUESTION] },
    CountedCommand { name: "recall --local", group: Group::Recall,
        args: &["recall", MEMORY, QUESTION, "--no-abstain"] },
    CountedCommand { name: "pass consolidate --local", group: Group::Passes,
        args: &["pass", "run", "consolidate", "--scope", MEMORY] },
    CountedCommand { name: "pass distill --local", group: Group::Passes,
        args: &["pass", "run", "distill", "--scope", MEMORY] },
];

/// One round of counting on one store.
pub fn count_round(round: &mut Round, counter: Counter) -> anyhow::Result<()> {
    let compare = round.compare;
    for side in Side::in_turn(round.number) {
        let setup = compare.setups.of(side);
        let place = DataPlace::new(setup, round.server)?;
        let mut count = |name: &str, command: &Command, operations: usize| {
            let instructions = counter.count(command, setup.folder.path())?;
            let taken = Measurement::value_only(instructions as f64 / operations as f64);
            round.add(side, name, FigureUnit::Instructions, taken)
        };
        let entries = compare.scale.corpus_of_commands();
        let import = import(&place, &compare.corpus);
        if compare.wants(Group::Import) {
            count("import --local, an entry", &import, entries)?;
        } else {
            timed(import)?;
        }
        for counted in COUNTED_COMMANDS.iter().filter(|of| compare.wants(of.group)) {
            let mut command = place.command();
            command.args(counted.args);
            count(counted.name, &command, 1)?;
        }
        eprintln!(
            "{}, round {}: {side:?} counted",
            round.store,
            round.number + 1
        );
    }
    Ok(())
}
