//! Files that a configuration names, and files of configurations.

use super::*;

#[test]
fn a_file_of_values_that_is_not_there_is_told_before_the_run() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a.config");
    let blob = directory.path().join("none");
    std::fs::write(&path, format!("{{value_generator_blob_file, {blob:?}}}.")).expect("a file");
    let told = Config::load(&[path]).expect_err("no file").to_string();
    assert!(
        told.contains(":1:29: value_generator_blob_file: the file") && told.contains("none"),
        "{told}"
    );
}

#[test]
fn files_of_keys_are_opened_before_a_run() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("x.config");
    std::fs::write(&path, "{value_generator, {keygen, {file_line_bin, \"/no/keys\"}}}.")
        .expect("x");
    let error = Config::load(&[path]).expect_err("no such file").to_string();
    assert!(error.contains("value_generator: the file /no/keys cannot be read"), "{error}");
}

#[test]
fn a_file_that_values_are_cut_from_is_looked_at_before_the_run() {
    let directory = tempfile::tempdir().expect("a directory");
    let of_blob = |blob: &Path| {
        let path = directory.path().join("b.config");
        let text = format!("{{value_generator_blob_file, \"{}\"}}.", blob.display());
        std::fs::write(&path, text).expect("a file");
        Config::load(&[path])
    };
    let folder = of_blob(directory.path()).expect_err("a folder").to_string();
    assert!(folder.contains("value_generator_blob_file: the file"), "{folder}");
    let blob = directory.path().join("blob");
    std::fs::write(&blob, "").expect("a file");
    assert!(of_blob(&blob).expect_err("empty").to_string().contains("it is empty"));
    std::fs::write(&blob, [b'x'; 100]).expect("a file");
    let warnings = of_blob(&blob).expect("a configuration").warnings;
    assert!(warnings[0].contains("values of 100 bytes and more are cut from the 100 bytes"));
    std::fs::write(&blob, [b'x'; 101]).expect("a file");
    assert_eq!(of_blob(&blob).expect("a configuration").warnings, [""; 0]);
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let missing = Config::load(&["/no/such.config".into()]).err().map(|error| error.to_string());
    assert!(missing.is_some_and(|text| text.starts_with("/no/such.config: the configuration")));
    assert!(matches!(Config::load(&[]), Err(ConfigError::NoFile)));
    let folder = tempfile::tempdir().expect("a folder");
    let (empty, full) = (folder.path().join("empty.config"), folder.path().join("full.config"));
    std::fs::write(&empty, "%% Nothing.\n").expect("a file");
    std::fs::write(&full, "{concurrent, 7}.\n").expect("a file");
    let said = Config::load(std::slice::from_ref(&empty)).err().map(|error| error.to_string());
    assert!(said.is_some_and(|text| text.contains("empty.config: the configuration sets no key")));
    let both = Config::load(&[empty, full]).expect("an empty file beside another one is none");
    assert_eq!(both.worker_count, 7);
}
