use super::escape;

#[test]
fn only_an_ampersand_that_begins_a_character_reference_is_escaped() {
    assert_eq!(escape("/?a=1&lang=en&lt=2"), "/?a=1&lang=en&lt=2");
    assert_eq!(escape("/?&copy_of=1&amp;&#65;&"), "/?&amp;copy_of=1&amp;amp;&amp;#65;&");
    assert_eq!(escape("/?a=&*"), "/?a=&*");
}
