use super::*;

#[test]
fn root_maps_each_id_that_it_has_to_itself() {
    assert_eq!(identity("         0          0 4294967295\n"), "0 0 4294967295\n");
    assert_eq!(identity("0 1000 1\n1 100000 65536\n"), "0 0 1\n1 1 65536\n");
}

#[test]
fn a_user_has_a_range_by_name_or_number() {
    let file = "root:100000:65536\n# comment\nann:165536:65536\n1001:231072:1000\n";
    assert_eq!(range(file, "ann", 1000), Some(("165536", "65536")));
    assert_eq!(range(file, "bob", 1001), Some(("231072", "1000")));
    assert_eq!(range(file, "eve", 1002), None);
}
