use super::*;

#[test]
fn of_long_output_whole_lines_of_the_end_are_kept() {
    let long = "a line\n".repeat(1000);
    let kept = tail(long.as_bytes());
    assert!(kept.len() <= OUTPUT_BYTES && kept.starts_with("a line\n"));
    assert_eq!(tail(b"short"), "short");
    let path = std::env::temp_dir().join(format!("fastopen-output-{}", std::process::id()));
    fs::write(&path, &long).expect("the temporary folder is writable");
    let end = end_of(&path, OUTPUT_BYTES as u64 + 1);
    fs::remove_file(&path).expect("it is there");
    assert_eq!(end.expect("it can be read"), &long.as_bytes()[long.len() - OUTPUT_BYTES - 1..]);
    assert_eq!(tail(&long.as_bytes()[long.len() - OUTPUT_BYTES - 1..]), kept);
}

#[test]
fn a_plan_with_another_key_is_refused() {
    let plan = br#"{"folder":"/f","program":"p","timeout_s":1,"scripts":[],"more":1}"#;
    assert!(Plan::read(plan).unwrap_err().message.contains("more"));
}
