//! Tests jobs and records with golden documents, and with cases that `tools/generate.py` derives from these.

use std::fs;
use std::path::Path;

use fastopen_contract::{Job, Record};
use serde_json::Value;
use serde_json::value::to_raw_value;

fn committed(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/contract");
    fs::read_to_string(folder.join(name)).expect("it is committed")
}

fn golden(name: &str) -> Value {
    serde_json::from_str(&committed(&format!("{name}.json"))).expect("it is JSON")
}

fn cases(name: &str) -> Vec<Value> {
    committed(name).lines().map(|line| serde_json::from_str(line).expect("it is a case")).collect()
}

/// Applies the changes of a case to a document, at JSON pointers (RFC 6901).
fn changed(mut document: Value, case: &Value) -> Value {
    let changes = |of: &str| case[of].as_object().cloned().unwrap_or_default();
    for (pointer, value) in changes("set") {
        let (parent, key) = pointer.rsplit_once('/').expect("a pointer has a slash");
        match document.pointer_mut(parent).expect("the parent is there") {
            Value::Object(parent) => drop(parent.insert(key.to_owned(), value)),
            parent => parent[key.parse::<usize>().expect("an index")] = value,
        }
    }
    for pointer in case["remove"].as_array().into_iter().flatten() {
        let (parent, key) = pointer.as_str().and_then(|way| way.rsplit_once('/')).expect("a pointer");
        let parent = document.pointer_mut(parent).and_then(Value::as_object_mut).expect("an object");
        parent.remove(key).expect("it is there");
    }
    for (pointer, length) in changes("length") {
        let list = document.pointer_mut(&pointer).and_then(Value::as_array_mut).expect("a list");
        let element = list.last().cloned().expect("it has one");
        list.resize(length.as_u64().expect("a length") as usize, element);
    }
    for (pointer, text) in changes("text") {
        let (before, middle): (&str, &str) =
            (text[0].as_str().expect("text"), text[1].as_str().expect("text"));
        let times = text[2].as_u64().expect("a number") as usize;
        *document.pointer_mut(&pointer).expect("it is there") =
            Value::from(before.to_owned() + &middle.repeat(times));
    }
    document
}

/// Reads a record and returns it as the program would write it.
fn written(record: &Value) -> Result<Value, String> {
    let record: Record = serde_json::from_value(record.clone()).map_err(|error| error.to_string())?;
    Ok(serde_json::to_value(&record).expect("a record can be written"))
}

/// Returns the words of an enum, or the keys of an object, that an error message lists as expected.
fn expected(error: &str) -> Vec<&str> {
    let (_, words) = error.split_once(", expected").unwrap_or_default();
    words.split('`').skip(1).step_by(2).collect()
}

#[test]
fn golden_records_are_what_the_program_writes_to_the_byte() {
    for name in ["world", "load", "transactions", "packets", "end", "error"] {
        let text = committed(&format!("{name}.json"));
        let record: Record = serde_json::from_str(&text).expect("it is a record");
        assert_eq!(serde_json::to_string_pretty(&record).expect("it can be written") + "\n", text);
    }
}

#[test]
fn the_program_can_write_what_the_schema_has_and_nothing_else() {
    for case in cases("record-cases.jsonl") {
        let record = changed(golden(case["record"].as_str().expect("a name")), &case);
        let back = written(&record);
        assert_eq!(back.as_ref() == Ok(&record), case["fits"], "{case}: {back:?}");
        if let (Err(error), Value::Array(known)) = (&back, &case["known"]) {
            let known: Vec<_> = known.iter().filter(|key| *key != "type").collect();
            assert_eq!(expected(error), known, "{case}: {error}");
        }
    }
}

#[test]
fn a_job_that_the_schema_refuses_is_refused_and_one_that_keeps_all_rules_is_taken() {
    let base = golden("job");
    for case in cases("job-cases.jsonl") {
        let job = to_raw_value(&changed(base.clone(), &case)).expect("it is JSON");
        let read = Job::read(&job).map(|job| job.id);
        // Only the Python models check rules that concern several keys.
        if case["refused"] != "rule" {
            assert_eq!(read.is_ok(), case["refused"].is_null(), "{case}: {read:?}");
        }
        if let (Err(error), Value::Array(known)) = (&read, &case["known"]) {
            assert_eq!(&expected(error), known, "{case}: {error}");
        }
    }
}
