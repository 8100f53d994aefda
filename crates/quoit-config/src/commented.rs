//! A configuration file with every key, commented out, with its meaning and its default.

use crate::keys::keys;

/// Width of a comment in characters.
const WIDTH: usize = 96;

/// The text of the file. Unedited, it changes nothing.
#[must_use]
pub fn commented() -> String {
    let mut text = String::from(
        "## Configuration of a Quoit node. A setting is a line `key = value`. Lines with ## describe a\n\
         ## setting, lines with a single # show its default: to change it, remove the # and edit the value.\n\
         ## `quoit config check FILE` checks the file. On SIGHUP a running node reads it again: settings\n\
         ## described as applied on SIGHUP take effect at once, all others at the next start.\n",
    );
    for key in keys() {
        text.push('\n');
        for line in wrapped(&format!("{} Values: {}.", key.about, key.kind.valid_form())) {
            text.push_str(&format!("## {line}\n"));
        }
        let name = key.name.replace('$', "");
        match key.default {
            "" => text.push_str(&format!("# {name} =\n")),
            default => text.push_str(&format!("# {name} = {default}\n")),
        }
    }
    text
}

/// Wraps a text into lines.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{parse_text, settings_of};

    fn parsed(text: &str) -> usize {
        let none = &mut |_: &std::path::Path| panic!("it includes no other file");
        let entries =
            parse_text("quoit.conf".as_ref(), text.as_bytes(), none).expect("it can be read");
        let count = entries.len();
        settings_of(entries).expect("its values are good");
        count
    }

    #[test]
    fn the_commented_file_changes_nothing_and_each_default_in_it_is_a_good_value() {
        let text = commented();
        assert_eq!(parsed(&text), 0);
        let settings: String = text
            .lines()
            .filter_map(|line| line.strip_prefix("# ").filter(|line| !line.ends_with(" =")))
            .map(|line| format!("{line}\n"))
            .collect();
        assert!(parsed(&settings) > 50, "{settings}");
        assert!(text.lines().all(|line| line.chars().count() <= 110), "{text}");
    }
}
