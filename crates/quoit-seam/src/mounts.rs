//! The file systems that are mounted on the machine.

use std::fs;

/// A mounted file system.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mount {
    /// Path at which it is mounted.
    pub path: String,
    /// Kind of the file system, such as `ext4`.
    pub kind: String,
}

impl Mount {
    /// Returns the mounted file systems in the order in which they were mounted. The list is empty if the
    /// system does not report them.
    #[must_use]
    pub fn all() -> Vec<Mount> {
        Mount::parse(&fs::read_to_string("/proc/self/mounts").unwrap_or_default())
    }

    /// Reads a text in the form of `/proc/self/mounts` (`fstab(5)`). Leaves out lines of another form.
    #[must_use]
    pub fn parse(text: &str) -> Vec<Mount> {
        let mount = |line: &str| {
            let mut words = line.split(' ').skip(1);
            Some(Mount { path: unescaped(words.next()?), kind: words.next()?.to_owned() })
        };
        text.lines().filter_map(mount).collect()
    }
}

/// Undoes the escapes of spaces and the like: a backslash and three octal digits.
fn unescaped(word: &str) -> String {
    let mut pieces = word.split('\\');
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        match piece.split_at_checked(3).map(|(code, rest)| (u8::from_str_radix(code, 8), rest)) {
            Some((Ok(code), rest)) if code.is_ascii() => {
                text.push(char::from(code));
                text.push_str(rest);
            }
            _ => {
                text.push('\\');
                text.push_str(piece);
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_unescaped_in_one_pass_and_lines_of_another_form_left_out() {
        let text = "/dev/sda1 / ext4 rw,relatime 0 0\n\
                    odd\n\
                    host:/x /my\\040data\\134040 nfs4 rw 0 0\n";
        let mount = |path: &str, kind: &str| Mount { path: path.into(), kind: kind.into() };
        assert_eq!(Mount::parse(text), [mount("/", "ext4"), mount("/my data\\040", "nfs4")]);
        assert_eq!(unescaped("a\\041b\\9"), "a!b\\9");
    }

    #[test]
    fn the_root_is_mounted() {
        assert!(Mount::all().iter().any(|mount| mount.path == "/"));
    }
}
