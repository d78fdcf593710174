use super::{are_siblings, siblings};

#[test]
fn siblings_differ_in_the_first_digit_of_a_name() {
    let found: Vec<_> = siblings("img2.cdn7.test").collect();
    assert_eq!(found.len(), 9);
    assert!(found.contains(&"img0.cdn7.test".to_owned()));
    assert!(!found.contains(&"img2.cdn7.test".to_owned()));
    assert_eq!(siblings("www.test").count(), 0);
    assert_eq!(siblings("192.0.2.1").count(), 0);
    assert_eq!(siblings("[2001:db8::1]").count(), 0);
}

#[test]
fn hosts_that_differ_in_digits_alone_are_siblings() {
    assert!(are_siblings("img1.test", "img2.test"));
    assert!(!are_siblings("img1.test", "img1.test"));
    assert!(!are_siblings("img1.test", "img10.test"));
    assert!(!are_siblings("img1.test", "pic1.test"));
    assert!(!are_siblings("192.0.2.1", "192.0.2.2"));
}
