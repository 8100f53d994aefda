//! The agents that ran the load.

use std::fmt::Write as _;

use super::parts::Section;
use crate::plot::escape;
use crate::run::AgentSummary;

/// The section of the page; empty for a run of one process.
pub(super) fn section(agents: &[AgentSummary]) -> String {
    if agents.is_empty() {
        return String::new();
    }
    let lost = agents.iter().filter(|agent| agent.lost.is_some()).count();
    let hint = match lost {
        0 => {
            "Their figures together are those of the run. The uncertainty of a clock is that of the start."
        }
        _ => "An agent was lost: from then on the figures lack its share, and the run was ended.",
    };
    let mut html = String::from("<div class=\"scroll\"><table>\n<thead><tr>");
    for head in
        ["agent", "workers", "clock ahead, ms", "uncertainty, ms", "processor, s", "load generator"]
    {
        let _ = write!(html, "<th scope=\"col\">{head}</th>");
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for agent in agents {
        let verdict = match (&agent.lost, agent.client_bound) {
            (Some(fault), _) => format!("lost: {fault}"),
            (None, true) => "client-bound".to_owned(),
            (None, false) => "not client-bound".to_owned(),
        };
        let _ = writeln!(
            html,
            "<tr><td>{}</td><td>{}</td><td>{:+.3}</td><td>{:.3}</td><td>{:.1}</td><td>{}</td></tr>",
            escape(&agent.address),
            agent.workers,
            agent.clock_ahead_ms,
            agent.clock_uncertainty_ms,
            agent.process_cpu_s,
            escape(&verdict),
        );
    }
    html.push_str("</tbody></table></div>\n");
    let html = Section { id: "agents", heading: "Agents", hint, content: &html }.html();
    match lost {
        0 => html,
        _ => html.replacen("<section", "<section class=\"notice\"", 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_agent_stands_out() {
        let agent = AgentSummary {
            address: "10.0.0.1:8077".to_owned(),
            workers: 5,
            unstarted: 0,
            clock_ahead_ms: -0.25,
            clock_uncertainty_ms: 0.05,
            threads: 2,
            process_cpu_s: 1.0,
            saturated_share: 0.0,
            client_bound: false,
            lost: None,
        };
        let page = section(std::slice::from_ref(&agent));
        assert!(
            page.contains("<td>-0.250</td><td>0.050</td>") && page.contains("not client-bound")
        );
        assert!(!page.contains("notice"), "{page}");
        let lost = AgentSummary { lost: Some("the <connection> broke".to_owned()), ..agent };
        let page = section(&[lost]);
        assert!(page.contains("lost: the &lt;connection&gt; broke"), "{page}");
        assert!(page.contains("class=\"notice\"") && !page.contains("not client-bound"), "{page}");
        assert_eq!(section(&[]), "");
    }
}
