use super::*;

#[test]
fn addresses_are_read_as_programs_write_them() {
    let family = |number: i32| (number as u16).to_ne_bytes().to_vec();
    let v4 = [family(libc::AF_INET), vec![0, 80, 192, 0, 2, 1], vec![0; 8]].concat();
    let mut last = vec![0; 16];
    last[15] = 1;
    let v6 = [family(libc::AF_INET6), vec![1, 187], vec![0; 4], last, vec![0; 4]].concat();
    assert_eq!(address(&v4), Some("192.0.2.1:80".parse().expect("it is one")));
    assert_eq!(address(&v6), Some("[::1]:443".parse().expect("it is one")));
    for bytes in [v4, v6.clone()] {
        assert_eq!(address(&bytes).map(name), Some(bytes));
    }
    for odd in [family(libc::AF_UNSPEC), family(libc::AF_INET), v6[..20].to_vec(), vec![2]] {
        assert_eq!(address(&odd), None, "{odd:?}");
    }
}
