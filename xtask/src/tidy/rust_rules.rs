//! Rules of Rust files: lengths, and macros and calls that are forbidden outside tests.

use std::path::Path;

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::Problem;
use super::source_tree::{Source, is_test_configuration};

/// Number of lines above which a file causes a warning, and number above which it causes an error.
const FILE_LINES_WARN: usize = 500;
const FILE_LINES_MAX: usize = 900;
const FUNCTION_LINES_MAX: usize = 70;

/// Macros for unfinished work or debugging output.
const FORBIDDEN_MACROS: [&str; 3] = ["todo", "unimplemented", "dbg"];

/// Words with which a doc comment must not begin: such a sentence has no named subject.
const OPENINGS_REFUSED: [&str; 2] = ["What", "Who"];

/// Checks one file.
pub(super) fn check(path: &Path, source: &Source, problems: &mut Vec<Problem>) {
    check_openings(path, &source.text, problems);
    let mut visitor =
        Visitor { path, problems, tests: usize::from(source.test_only), test_lines: 0 };
    visitor.visit_file(&source.syntax);
    let test_lines = visitor.test_lines;
    if source.test_only {
        return;
    }
    let lines = source.text.lines().count() - test_lines;
    if lines > FILE_LINES_WARN {
        let text = format!("{lines} lines without tests; split it by subject");
        let warning = lines <= FILE_LINES_MAX;
        problems.push(Problem { warning, ..Problem::new(path, 0, text) });
    }
}

/// Checks the first word of each paragraph of a doc comment. It works on lines, because macro calls can
/// contain doc comments too.
fn check_openings(path: &Path, text: &str, problems: &mut Vec<Problem>) {
    let mut goes_on = false;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let Some(said) = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) else {
            goes_on = false;
            continue;
        };
        let first = said
            .split(|character: char| !character.is_alphanumeric())
            .find(|word| !word.is_empty());
        if let Some(word) = first.filter(|word| !goes_on && OPENINGS_REFUSED.contains(word)) {
            let text =
                format!("a doc comment begins with {word:?}; name the thing, or what it does");
            problems.push(Problem::new(path, index + 1, text));
        }
        goes_on = !said.trim().is_empty();
    }
}

struct Visitor<'a> {
    path: &'a Path,
    problems: &'a mut Vec<Problem>,
    /// Number of enclosing items that are compiled for tests only.
    tests: usize,
    /// Number of lines of the outermost items of that kind.
    test_lines: usize,
}

impl Visitor<'_> {
    fn say(&mut self, line: usize, text: impl Into<String>) {
        self.problems.push(Problem::new(self.path, line, text));
    }

    fn inside(
        &mut self,
        attributes: &[syn::Attribute],
        whole: impl Spanned,
        enter: impl FnOnce(&mut Self),
    ) {
        let is_test = attributes.iter().any(is_test_configuration);
        if is_test && self.tests == 0 {
            let span = whole.span();
            self.test_lines += span.end().line + 1 - span.start().line;
        }
        self.tests += usize::from(is_test);
        enter(self);
        self.tests -= usize::from(is_test);
    }

    fn function(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let (first, last) = (signature.span().start().line, block.span().end().line);
        let lines = last + 1 - first;
        if lines > FUNCTION_LINES_MAX {
            let name = &signature.ident;
            self.say(first, format!("fn {name} has {lines} lines; at most {FUNCTION_LINES_MAX}"));
        }
    }

    /// Searches the tokens of a macro call for `.unwrap()`.
    fn tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        for (index, token) in tokens.iter().enumerate() {
            match token {
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Ident(name) if name == "unwrap" && self.tests == 0 => {
                    let after_dot = index > 0
                        && matches!(&tokens[index - 1], TokenTree::Punct(dot) if dot.as_char() == '.');
                    if after_dot {
                        self.say_unwrap(name.span().start().line);
                    }
                }
                _ => {}
            }
        }
    }

    fn say_unwrap(&mut self, line: usize) {
        self.say(line, "unwrap() outside tests; return an error, or expect(\"the invariant\")");
    }
}

impl<'ast> Visit<'ast> for Visitor<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.inside(&item.attrs, item, |this| visit::visit_item_mod(this, item));
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        self.inside(&item.attrs, item, |this| visit::visit_item_impl(this, item));
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig, &item.block);
        self.inside(&item.attrs, item, |this| visit::visit_item_fn(this, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig, &item.block);
        self.inside(&item.attrs, item, |this| visit::visit_impl_item_fn(this, item));
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        if attribute.path().is_ident("ignore") {
            let line = attribute.span().start().line;
            self.say(line, "an ignored test tests nothing; repair it or remove it");
        }
        visit::visit_attribute(self, attribute);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        if call.method == "unwrap" && self.tests == 0 {
            self.say_unwrap(call.method.span().start().line);
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        if let Some(name) = called.path.segments.last().map(|segment| segment.ident.to_string())
            && FORBIDDEN_MACROS.contains(&name.as_str())
        {
            self.say(called.span().start().line, format!("{name}! must not stay"));
        }
        self.tokens(called.tokens.clone());
        visit::visit_macro(self, called);
    }
}
