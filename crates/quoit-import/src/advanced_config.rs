//! A reader of Riak's `advanced.config`, which holds Erlang terms.
//!
//! The file has the form `[{Application, [{Key, Value}, ...]}, ...].`. A value that is a tuple, a list, or a
//! binary of anything but one string is returned as its text.

use anyhow::{Result, bail};

/// Deepest nesting that the reader accepts.
const DEPTH_MAX: usize = 64;

/// A setting of an `advanced.config`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AdvancedSetting {
    /// The Erlang application, for example `riak_kv`.
    pub application: String,
    /// Name of the setting.
    pub key: String,
    /// Its value as text. Atoms and strings are without quotes.
    pub value: String,
    /// Line of the setting in the file, counted from 1.
    pub line: usize,
}

/// A parsed Erlang term.
#[derive(Clone, PartialEq, Debug)]
enum Node {
    /// An atom, a number, a string or a binary.
    Word(String),
    Tuple(Vec<(Node, usize)>),
    List(Vec<(Node, usize)>),
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

/// Reads the settings of a file.
///
/// # Errors
///
/// If the text is not a list of Erlang terms in this form; the error names the line.
pub fn advanced_settings(text: &str) -> Result<Vec<AdvancedSetting>> {
    let mut reader = Reader { text: text.as_bytes(), at: 0 };
    reader.skip_space();
    if reader.at == reader.text.len() {
        return Ok(Vec::new());
    }
    let Node::List(applications) = reader.node(0)? else { bail!("line 1: the file is not a list") };
    let mut settings = Vec::new();
    for (application, line) in applications {
        let Some((application, Node::List(pairs))) = pair(application) else {
            bail!("line {line}: an element is not {{Application, [Settings]}}");
        };
        for (setting, line) in pairs {
            let Some((key, value)) = pair(setting) else {
                bail!("line {line}: a setting of {application} is not {{Key, Value}}");
            };
            let application = application.clone();
            settings.push(AdvancedSetting { application, key, value: text_of(&value), line });
        }
    }
    Ok(settings)
}

fn pair(node: Node) -> Option<(String, Node)> {
    let Node::Tuple(parts) = node else { return None };
    match <[(Node, usize); 2]>::try_from(parts).ok()? {
        [(Node::Word(name), _), (value, _)] => Some((name, value)),
        _ => None,
    }
}

fn text_of(node: &Node) -> String {
    let all = |parts: &[(Node, usize)]| {
        parts.iter().map(|(part, _)| text_of(part)).collect::<Vec<_>>().join(", ")
    };
    match node {
        Node::Word(word) => word.clone(),
        Node::Tuple(parts) => format!("{{{}}}", all(parts)),
        Node::List(parts) => format!("[{}]", all(parts)),
    }
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// The text that is not read yet.
    fn rest(&self) -> &[u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// The text that was read since `start`.
    fn passed(&self, start: usize) -> String {
        let passed = self.text.get(start..self.at).unwrap_or_default();
        String::from_utf8_lossy(passed).into_owned()
    }

    fn line(&self) -> usize {
        1 + self.text.iter().take(self.at).filter(|byte| **byte == b'\n').count()
    }

    /// Skips white space and comments.
    fn skip_space(&mut self) {
        while let Some(byte) = self.peek() {
            if byte == b'%' {
                while self.peek().is_some_and(|byte| byte != b'\n') {
                    self.at += 1;
                }
            } else if byte.is_ascii_whitespace() {
                self.at += 1;
            } else {
                return;
            }
        }
    }

    fn node(&mut self, depth: usize) -> Result<Node> {
        self.skip_space();
        if depth > DEPTH_MAX {
            bail!("line {}: terms are nested too deeply", self.line());
        }
        match self.peek() {
            Some(b'{') => Ok(Node::Tuple(self.parts(b'}', depth)?)),
            Some(b'[') => Ok(Node::List(self.parts(b']', depth)?)),
            Some(b'"') => Ok(Node::Word(self.quoted(b'"')?)),
            Some(b'\'') => Ok(Node::Word(self.quoted(b'\'')?)),
            Some(b'<') => self.binary(depth),
            Some(byte) if byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_' => {
                let start = self.at;
                let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-_@#".contains(&byte);
                while self.peek().is_some_and(is_part) || self.is_point_of_a_number() {
                    self.at += 1;
                }
                Ok(Node::Word(self.passed(start)))
            }
            Some(byte) => bail!("line {}: {:?} begins no term", self.line(), char::from(byte)),
            None => bail!("line {}: the file ends within a term", self.line()),
        }
    }

    fn is_point_of_a_number(&self) -> bool {
        let digit = |at: usize| self.text.get(at).is_some_and(u8::is_ascii_digit);
        self.peek() == Some(b'.') && self.at > 0 && digit(self.at - 1) && digit(self.at + 1)
    }

    fn parts(&mut self, end: u8, depth: usize) -> Result<Vec<(Node, usize)>> {
        self.at += 1;
        let mut parts = Vec::new();
        loop {
            self.skip_space();
            if self.peek() == Some(end) {
                self.at += 1;
                return Ok(parts);
            }
            let line = self.line();
            parts.push((self.node(depth + 1)?, line));
            self.skip_space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(byte) if byte == end => {}
                _ => bail!("line {}: a comma or {:?} is missing", self.line(), char::from(end)),
            }
        }
    }

    fn quoted(&mut self, quote: u8) -> Result<String> {
        let line = self.line();
        self.at += 1;
        let mut bytes = Vec::new();
        while let Some(byte) = self.peek() {
            self.at += 1;
            match byte {
                byte if byte == quote => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
                b'\\' => self.escaped(&mut bytes),
                byte => bytes.push(byte),
            }
        }
        bail!("line {line}: a quote is not closed")
    }

    /// Reads the rest of an escape sequence after its backslash, and appends its character.
    fn escaped(&mut self, to: &mut Vec<u8>) {
        let Some(byte) = self.peek() else { return };
        self.at += 1;
        let code = match byte {
            b'b' => 8,
            b't' => 9,
            b'n' => 10,
            b'v' => 11,
            b'f' => 12,
            b'r' => 13,
            b'e' => 27,
            b's' => 32,
            b'd' => 127,
            b'0'..=b'7' => {
                self.at -= 1;
                self.digits(8, 3)
            }
            b'x' if self.peek() == Some(b'{') => {
                self.at += 1;
                let code = self.digits(16, 6);
                self.at += usize::from(self.peek() == Some(b'}'));
                code
            }
            b'x' => self.digits(16, 2),
            b'^' => match self.peek() {
                Some(letter @ (b'@'..=b'_' | b'a'..=b'z')) => {
                    self.at += 1;
                    u32::from(letter & 31)
                }
                _ => return to.push(b'^'),
            },
            byte => return to.push(byte),
        };
        let character = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
        to.extend(character.to_string().bytes());
    }

    /// Reads a number of at most so many digits.
    fn digits(&mut self, radix: u32, count_max: usize) -> u32 {
        let mut number = 0;
        for _ in 0..count_max {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(radix));
            let Some(digit) = digit else { break };
            number = number * radix + digit;
            self.at += 1;
        }
        number
    }

    /// Reads a binary. The value of a binary of one string, `<<"text">>`, is the string.
    fn binary(&mut self, depth: usize) -> Result<Node> {
        let line = self.line();
        if !self.rest().starts_with(b"<<") {
            bail!("line {line}: \"<\" begins no term");
        }
        self.at += 2;
        let (mut segments, mut is_all_text) = (Vec::new(), true);
        loop {
            self.skip_space();
            if self.rest().starts_with(b">>") {
                self.at += 2;
                break;
            }
            is_all_text &= self.peek() == Some(b'"');
            segments.push(self.segment(depth)?);
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'>') => {}
                _ => bail!("line {line}: a binary is not closed"),
            }
        }
        Ok(Node::Word(match &segments[..] {
            [] => String::new(),
            [(text, _)] if is_all_text => text.clone(),
            segments => {
                let segments = segments.iter().map(|(value, form)| format!("{value}{form}"));
                format!("<<{}>>", segments.collect::<Vec<_>>().join(", "))
            }
        }))
    }

    /// Reads a segment of a binary: its value, and its size and type as they are written, such as `:16` or
    /// `/utf8`.
    fn segment(&mut self, depth: usize) -> Result<(String, String)> {
        let value = text_of(&self.node(depth + 1)?);
        self.skip_space();
        let start = self.at;
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b":/-_".contains(&byte);
        while self.peek().is_some_and(is_part) {
            self.at += 1;
        }
        let form = self.passed(start);
        self.skip_space();
        Ok((value, form))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_with_their_lines() {
        let text = "%% a comment\n[{riak_kv, [\n  {delete_mode, keep}, % why\n  {ratio, 0.5}]},\n \
            {riak_core, [{default_bucket_props, [{n_val, 3}, {name, <<\"x\">>}]}, \
            {'odd name', \"te\\\"xt\"}]}].\n";
        let settings = advanced_settings(text).expect("Erlang terms");
        let told: Vec<_> =
            settings.iter().map(|one| (one.key.as_str(), one.value.as_str(), one.line)).collect();
        assert_eq!(
            told,
            [
                ("delete_mode", "keep", 3),
                ("ratio", "0.5", 4),
                ("default_bucket_props", "[{n_val, 3}, {name, x}]", 5),
                ("odd name", "te\"xt", 5),
            ]
        );
        assert_eq!(settings[2].application, "riak_core");
    }

    /// The value of a setting that is written like this.
    fn value(text: &str) -> String {
        let settings =
            advanced_settings(&format!("[{{riak_kv, [{{key, {text}}}]}}].")).expect(text);
        settings[0].value.clone()
    }

    #[test]
    fn binaries_are_read_with_the_types_of_their_parts() {
        for text in ["<<\"é\"/utf8>>", "<< \"é\" /utf8 >>", "<<\"é\">>"] {
            assert_eq!(value(text), "é", "{text}");
        }
        assert_eq!(value("<<>>"), "");
        assert_eq!(value("<<1,2>>"), "<<1, 2>>");
        assert_eq!(
            value("[<<1:16/little-unsigned, \"a\">>, x]"),
            "[<<1:16/little-unsigned, a>>, x]"
        );
    }

    #[test]
    fn escape_sequences_are_the_characters_that_they_have_in_erlang() {
        assert_eq!(value(r#""a\nb\tc\\d\"e\sf""#), "a\nb\tc\\d\"e f");
        assert_eq!(value(r#""\x41\x{e9}\101\0""#), "Aé\u{41}\0");
        assert_eq!(value(r#""\^a\^[\^\m\^""#), "\u{1}\u{1b}\u{1c}m^");
        assert_eq!(value(r"'it\'s'"), "it's");
    }

    #[test]
    fn what_is_no_list_of_terms_is_refused_with_its_line() {
        let cases = [
            ("[{riak_kv, [\n{a b}]}]", 2),
            ("{", 1),
            ("[\"open", 1),
            ("[\"open\\", 1),
            ("[<1]", 1),
            ("[<<1>]", 1),
            ("[\n<<\"a\"/utf8", 2),
        ];
        for (text, line) in cases {
            let refused = advanced_settings(text).expect_err(text).to_string();
            assert!(refused.contains(&format!("line {line}")), "{text}: {refused}");
        }
        assert!(advanced_settings(&"[".repeat(100_000)).is_err());
        assert_eq!(advanced_settings("% nothing\n").expect("nothing"), []);
    }
}
