use super::*;

#[test]
fn an_answer_is_whole_when_head_and_body_are_however_they_come() {
    let text = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";
    for size in [1, 7, text.len()] {
        let mut answer = Answer::default();
        for (number, piece) in text.chunks(size).enumerate() {
            assert!(!answer.is_whole(3), "before piece {number} of {size}");
            answer.take(piece).expect("it is short");
        }
        assert!(answer.is_whole(3));
        assert_eq!((answer.status, answer.body_bytes), (Some(200), 3));
    }
    assert!(Answer::default().take(&vec![b'x'; HEAD_BYTES + 1]).is_err());
}
