use super::piece_bytes;

#[test]
fn a_piece_in_a_data_frame_is_one_segment_of_tcp() {
    assert_eq!(piece_bytes(26_000) + 9, 1448);
    assert_eq!(piece_bytes(1_000), 500, "a small body has two pieces");
    assert_eq!(piece_bytes(1_000_000), 10_000, "a large body has a hundred");
}
