use super::*;

#[test]
fn the_time_of_a_core_is_read_from_its_own_line() {
    let text = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu1 1 2 3 4 5 6 7 8 0 0\ncpu11 9 9 9 9 9 9 9 9 0 0\n";
    let ms = |ticks: u64| ticks * 10_000_000;
    let wanted = CoreTime {
        idle_ns: ms(9),
        user_ns: ms(1),
        nice_ns: ms(2),
        system_ns: ms(3),
        interrupts_ns: ms(13),
        stolen_ns: ms(8),
    };
    assert_eq!(CoreTime::parse(text, 1), Some(wanted));
    assert_eq!(CoreTime::parse(text, 2), None);
}

#[test]
fn a_mask_of_cores_is_written_as_the_kernel_reads_it() {
    assert_eq!(
        ["1", "2", "1,00000000", "8,00000000,00000000"],
        [0, 1, 32, 67].map(mask).each_ref().map(String::as_str)
    );
}
