//! Tests of campaign files, their cells, and the errors for invalid campaigns.

use super::cell::{PhaseLoad, configuration};
use super::*;
use crate::term::Term;
use std::time::Duration;

const SMALL: &str = r#"
{title, "small"}.
{matrix, [{engine, [bitcask, leveled]}, {nodes, [1, 3]},
          {keys, [{uniform, uniform_int}, {pareto, pareto_int}]}]}.
{server, [{engine, {axis, engine}}, {nodes, {axis, nodes}}]}.
{common, [{driver, riakc_pb}, {riakc_pb_ips, {servers, pb}}, {concurrent, 2}]}.
{load, [{operations, [{put, 1}]}, {duration, infinity},
        {key_generator, {int_to_bin_bigendian, {partitioned_sequential_int, 1, {scaled, 1000}}}}]}.
{run, [{mode, {open_rate, {scaled, 500, 20}}}, {duration, 10}, {concurrent, 5},
       {key_generator, {int_to_bin_bigendian, {{axis, keys}, {scaled, 1000}}}}]}.
{events, [{"50%", kill, {kill, 2}}]}.
"#;

fn parsed(text: &str) -> Result<Campaign, CampaignError> {
    Campaign::parse("small.campaign".as_ref(), text.as_bytes())
}

fn scale(text: &str) -> CampaignScale {
    CampaignScale::parse(text).expect("a scale")
}

/// The error for a text that is not a campaign, or whose cells are invalid.
fn told(text: &str) -> String {
    match parsed(text).and_then(|campaign| campaign.cells(CampaignScale::WHOLE)) {
        Ok(_) => panic!("it has to be refused: {text}"),
        Err(error) => error.to_string(),
    }
}

fn keys(cell: &CampaignCell, phase: usize) -> &[(String, Term)] {
    match &cell.phases[phase].load {
        PhaseLoad::Configuration(keys) => keys,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_matrix_has_a_cell_for_each_combination() {
    let cells = parsed(SMALL).expect("a campaign").cells(CampaignScale::WHOLE).expect("cells");
    let labels: Vec<&str> = cells.iter().map(|cell| cell.label.as_str()).collect();
    assert_eq!(labels.len(), 8);
    assert_eq!(labels[..2], ["bitcask-nodes-1-uniform", "bitcask-nodes-1-pareto"]);
    assert_eq!(labels[7], "leveled-nodes-3-pareto");
    let last = &cells[7];
    assert_eq!((last.server.engine.as_deref(), last.server.node_count), (Some("leveled"), 3));
    let names: Vec<&str> = last.phases.iter().map(|phase| phase.name).collect();
    assert_eq!(names, ["load", "run"]);
    assert_eq!(last.length(), Duration::from_secs(600));
    assert_eq!(last.events[0].at, Duration::from_secs(300));
    let concurrent = |phase| {
        let found = keys(last, phase).iter().filter(|(key, _)| key == "concurrent");
        found.map(|(_, value)| value.clone()).collect::<Vec<_>>()
    };
    assert_eq!(concurrent(0), [Term::Integer(2)]);
    assert_eq!(concurrent(1), [Term::Integer(5)], "a phase's own key counts, not that of all");
}

#[test]
fn a_scale_changes_what_is_marked_and_nothing_else() {
    let campaign = parsed(SMALL).expect("a campaign");
    let cells = campaign.cells(scale("0.01")).expect("cells");
    let nodes = NodeAddresses { pb: "127.0.0.1:7".to_owned(), http: "127.0.0.1:8".to_owned() };
    let text = configuration(keys(&cells[1], 1), &[vec![nodes]]).expect("a configuration");
    for line in [
        "{mode, {open_rate,20}}.",
        "{duration, 0.1}.",
        "{concurrent, 5}.",
        "{key_generator, {int_to_bin_bigendian,{pareto_int,10}}}.",
        "{riakc_pb_ips, [{\"127.0.0.1\",7}]}.",
        "{report_interval, 1}.",
    ] {
        assert!(text.lines().any(|other| other == line), "{line} in\n{text}");
    }
    assert_eq!(cells[1].events[0].at, Duration::from_secs(3));
    let whole = campaign.cells(CampaignScale::WHOLE).expect("cells");
    assert!(!keys(&whole[1], 1).iter().any(|(key, _)| key == "report_interval"));
}

/// Asserts that each text, after a title on a line of its own, is rejected with an error that contains
/// these words.
fn assert_told(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        let told = told(&format!("{{title, \"t\"}}.\n{text}"));
        assert!(told.contains(expected), "{text}\n{told}\nand not\n{expected}");
    }
}

#[test]
fn faults_of_keys_are_told_with_their_place_and_a_remedy() {
    assert_told(&[
        ("{server, []}.", "has no run: add {run, ...}"),
        ("{run, [{driver, null}]}.", "has no server"),
        (
            "{server, []}. {run, []}.\n{matrx, []}.",
            "small.campaign:3:2: campaigns have no key matrx: did you mean `matrix`?",
        ),
        (
            "{server, []}. {run, []}.\n{matrix, [{a, []}]}.",
            "small.campaign:3:10: matrix: write a list of {Axis",
        ),
        ("{server, []}. {run, []}. {matrix, [{a, [{x, {axis, a}}]}]}.", "no term names an axis"),
        ("{server, []}. {run, []}. {matrix, [{a, [x, x]}]}.", "another label for each"),
        ("{server, []}. {run, []}. {growth, []}.", "either run or growth"),
        (
            "{server, []}. {run, []}. {figures, [{p98, get}]}.",
            "figures: {p98,get}: write a list of rate",
        ),
        (
            "{server, []}. {run, []}. {published, [{[{engine, x}], \"s\", [{rate, 1}]}]}.",
            "no cell has {engine,x}",
        ),
        (
            "{server, []}. {run, []}. {published, [{[], \"s\", [{rate, x}]}]}.",
            "a value is a number",
        ),
        ("{title, \"t\"", "small.campaign:2:"),
    ]);
    let untitled = told("{server, []}. {run, []}.");
    assert!(untitled.contains("has no title"), "{untitled}");
    let toml = Campaign::parse("a.toml".as_ref(), b"").expect_err("TOML").to_string();
    assert!(toml.contains("written in Erlang terms"), "{toml}");
    let unknown = Campaign::find("ec2-htp").expect_err("unknown").to_string();
    assert!(unknown.contains("did you mean `ec2-http`?"), "{unknown}");
}

#[test]
fn faults_of_cells_are_told_with_their_label_and_a_remedy() {
    assert_told(&[
        (
            "{server, []}. {run, []}. {events, [{\"5%\", x, {burn, 1}}]}.",
            "in the cell only: events",
        ),
        ("{server, [{node, 1}]}. {run, []}.", "has no field node: it has program, engine, nodes"),
        ("{server, [{nodes, 65}]}. {run, []}.", "nodes is 65: write a number from 1 to 64"),
        ("{server, [{linked, true}]}. {run, []}.", "takes {clusters, 2}"),
        ("{server, [{nodes, {axis, n}}]}. {run, []}.", "add {matrix, [...]}"),
        (
            "{matrix, [{m, [a]}]}. {server, [{nodes, {axis, n}}]}. {run, []}.",
            "in the cell a: {axis,n}: the matrix has no such axis, but m",
        ),
        (
            "{matrix, [{m, [{a, [{n, 1}]}]}]}. {server, [{nodes, {axis, m, o}}]}. {run, []}.",
            "has no field o",
        ),
        (
            "{server, []}. {run, [{driver, null}, {operations, [{fly, 1}]}]}.",
            "in the phase run of the cell only: ",
        ),
        ("{server, []}. {run, [{http_raw_ips, {servers, http, 2}}]}.", "there is 1 cluster"),
        ("{server, []}. {run, [{http_raw_ips, {servers, ftp}}]}.", "write {servers, pb}"),
        ("{server, []}. {run, [{concurrent, {scaled, x}}]}.", "{scaled, Number, Least}"),
    ]);
}

#[test]
fn every_shipped_campaign_can_be_run_at_every_scale() {
    for name in shipped_names() {
        for factor in ["1", "0.01", "0.000001"] {
            let campaign = Campaign::find(name).unwrap_or_else(|error| panic!("{error}"));
            let cells = campaign.cells(scale(factor)).unwrap_or_else(|error| panic!("{error}"));
            let mut labels: Vec<&str> = cells.iter().map(|cell| cell.label.as_str()).collect();
            labels.sort_unstable();
            labels.dedup();
            assert_eq!(labels.len(), cells.len(), "{name}: labels differ");
            assert!(!campaign.about.is_empty() && !campaign.source.is_empty(), "{name}");
        }
    }
}

#[test]
fn shipped_campaigns_are_the_published_configurations() {
    let run = |name: &str, index: usize| {
        let cells = Campaign::find(name).expect(name).cells(CampaignScale::WHOLE).expect(name);
        let cell = &cells[index];
        let phase = cell.phases.len() - 1;
        keys(cell, phase).to_vec()
    };
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/configs/");
    for (campaign, index, config) in [
        ("ec2-http", 0, "ec2-http"),
        ("five-nodes", 0, "cloud-1a-uniform"),
        ("beyond-memory", 0, "cloud-1b-pareto"),
        ("beyond-memory", 1, "cloud-1c-uniform"),
        ("eight-to-fourteen-nodes", 0, "cloud-2a-8-nodes"),
        ("eight-to-fourteen-nodes", 3, "cloud-2d-14-nodes"),
        ("replication", 0, "nhs"),
    ] {
        let file = format!("{folder}{config}.config");
        let published = crate::config::Settings::load(&[file.into()]).expect(config);
        // Servers differ, and the driver ignores the last two keys.
        let is_elsewhere =
            |key: &str| key.ends_with("_ips") || ["code_paths", "riakc_pb_replies"].contains(&key);
        let ours = run(campaign, index);
        for (key, _) in published.keys().filter(|(key, _)| !is_elsewhere(key)) {
            let own = ours.iter().find(|(own, _)| own == key).map(|(_, value)| value);
            assert_eq!(own, published.get(key), "{campaign}: {key}");
        }
    }
}
