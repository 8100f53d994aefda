//! The page of a run.

use super::*;

/// The page of a run in which every text tries to be markup.
fn hostile_page() -> String {
    let directory = run_directory();
    let path = directory.path();
    let get = fs::read_to_string(path.join("get_latencies.csv")).expect("a table");
    write(path, "<img src=x>_latencies.csv", &get);
    write(path, "a.config", "{x, \"</code></script><script>alert(1)</script>\"}.");
    append(path, "errors.csv", "\"{{<b>,<b>},</td>}\",\"3\"\n");
    append(path, "summary.csv", "30.0, 10");
    draw_page(&Results::read(path).expect("results")).expect("a page")
}

#[test]
fn nothing_that_others_wrote_is_markup_in_the_page() {
    let page = hostile_page();
    for text in ["<img", "<b>", "</td>}", "</code></script>", "<script>alert"] {
        assert!(!page.contains(text), "{text}");
    }
    assert!(page.contains("<h3>&lt;img src=x&gt;</h3>"));
    assert!(page.contains("{{&lt;b&gt;,&lt;b&gt;},&lt;/td&gt;}"));
    assert!(page.contains("&lt;script&gt;alert(1)"));
    // The data in a script element must end only at the intended end.
    let scripts = page.matches("<script").count();
    assert_eq!(scripts, page.matches("</script>").count());
}

#[test]
fn the_page_needs_nothing_from_elsewhere() {
    let page = hostile_page();
    assert!(page.contains("default-src 'none'"));
    for text in ["http://", "https://", "src=\"", "@import", "url("] {
        assert!(!page.contains(text), "{text}");
    }
    assert_eq!(page.matches("href=").count(), 1, "the icon, which is empty");
}

#[test]
fn the_page_of_tables_alone_says_what_they_cannot_tell() {
    let page = hostile_page();
    for id in
        ["operations", "throughput", "latency", "spectrum", "errors", "configuration", "notes"]
    {
        assert!(page.contains(&format!("<h2 id=\"{id}\">")), "{id}");
    }
    assert!(page.contains("shown is that of the median row"));
    assert!(page.contains("kept no distribution"));
    assert!(page.contains("summary.csv:4: the last line is cut off and was passed over"));
    assert_eq!(page.matches("<figure data-plot>").count(), 3, "throughput and two operations");
    assert!(page.contains("<td data-value=\"1500.5\">1.50</td>"), "the mean in milliseconds");
    assert!(!page.contains("<h2 id=\"setup\">"), "nothing is known of the setup");
}
