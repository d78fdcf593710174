use super::site;

#[test]
fn a_site_is_the_last_two_labels_of_a_name_and_all_of_an_address() {
    let sites = ["www.a.test", "a.test", "test", "10.0.0.1", "[::1]"].map(site);
    assert_eq!(sites, ["a.test", "a.test", "test", "10.0.0.1", "[::1]"]);
}
