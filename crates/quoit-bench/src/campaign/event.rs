//! Events of a campaign: changes of servers at given times of the measured load.

use super::scale::CampaignScale;
use super::servers::NodeAction;
use crate::config::{RunLength, event_name};
use crate::term::Term;
use std::time::Duration;

/// An event of a cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CellEvent {
    /// Time since the start of the measurement, already scaled.
    pub at: Duration,
    /// Name for people.
    pub name: String,
    /// The effect; `None` for a mark.
    pub effect: Option<CellEffect>,
}

/// Effect of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CellEffect {
    /// A change of the servers.
    Node(NodeAction),
    /// A shell command.
    Command(String),
}

/// The expected form of an event, for error messages.
const EXPECTED: &str = "write {Time, Name, Effect}: the time as \"20%\" of the run, or as \"15m\", which is \
                        scaled; the effect as {kill, Node}, {pause, Node}, {resume, Node}, {start, Node}, \
                        {add, Nodes}, or a command in quotes; {Time, Name} is a mark";

/// Reads the value of `events`, in which the values of axes are already substituted.
pub(super) fn read_cell_events(
    term: &Term,
    scale: CampaignScale,
    length: Option<Duration>,
) -> Result<Vec<CellEvent>, String> {
    let fault = |term: &Term| format!("events: {term}: {EXPECTED}");
    let list = term.as_list().ok_or_else(|| fault(term))?;
    let read = |term: &Term| read_event(term, scale, length).ok_or_else(|| fault(term));
    list.iter().map(read).collect()
}

fn read_event(term: &Term, scale: CampaignScale, length: Option<Duration>) -> Option<CellEvent> {
    let (at, name, effect) = match term.as_tuple()? {
        [at, name] => (at, name, None),
        [at, name, effect] => (at, name, Some(read_effect(effect)?)),
        _ => return None,
    };
    let at = at.as_text()?;
    let at = match at.strip_suffix('%') {
        Some(percent) => {
            let percent = percent.parse::<f64>().ok().filter(|p| (0.0..100.0).contains(p))?;
            length?.mul_f64(percent / 100.0)
        }
        None => match RunLength::parse(&at).ok()? {
            RunLength::For(at) => scale.moment(at),
            RunLength::Unlimited => return None,
        },
    };
    Some(CellEvent { at, name: event_name(name)?, effect })
}

fn read_effect(term: &Term) -> Option<CellEffect> {
    if let Some(command) = term.as_text() {
        return (!command.is_empty()).then_some(CellEffect::Command(command));
    }
    let [Term::Atom(what), number] = term.as_tuple()? else { return None };
    let number = u16::try_from(number.as_integer()?).ok().filter(|number| *number > 0)?;
    Some(CellEffect::Node(match what.as_str() {
        "kill" => NodeAction::Kill(number),
        "pause" => NodeAction::Pause(number),
        "resume" => NodeAction::Resume(number),
        "start" => NodeAction::Start(number),
        "add" => NodeAction::Add(number),
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::term::parse_terms;

    fn read(text: &str, scale: &str) -> Result<Vec<CellEvent>, String> {
        let term = parse_terms(&format!("{text}.")).expect("a term").remove(0).term;
        let scale = CampaignScale::parse(scale).expect("a scale");
        read_cell_events(&term, scale, Some(Duration::from_secs(50)))
    }

    #[test]
    fn events_come_at_shares_of_the_run_and_at_scaled_times() {
        let events = read(
            r#"[{"20%", kill, {kill, 3}}, {"10m", "two more", {add, 2}},
                {"0%", shell, "true"}, {"1h", mark}]"#,
            "0.01",
        );
        let events = events.expect("events");
        let times: Vec<u64> = events.iter().map(|event| event.at.as_secs()).collect();
        assert_eq!(times, [10, 6, 0, 36]);
        let effects: Vec<Option<CellEffect>> =
            events.into_iter().map(|event| event.effect).collect();
        let node = |action| Some(CellEffect::Node(action));
        assert_eq!(effects[..2], [node(NodeAction::Kill(3)), node(NodeAction::Add(2))]);
        assert_eq!(effects[2..], [Some(CellEffect::Command("true".to_owned())), None]);
    }

    #[test]
    fn what_is_no_event_is_told_with_the_form() {
        for text in [
            "kill",
            "[{20, kill}]",
            r#"[{"100%", kill}]"#,
            r#"[{"1s", kill, {kill, 0}}]"#,
            r#"[{"1s", kill, {burn, 1}}]"#,
            r#"[{"infinity", kill}]"#,
        ] {
            let told = read(text, "1").expect_err(text);
            assert!(told.contains("{kill, Node}"), "{told}");
        }
    }
}
