// Runs in each document before its own scripts, so that scripts see the same times and random numbers in each
// load. As in Web Page Replay, the calls advance the clock, so that a loop that waits for a time ends.
(() => {
    const Native = Date;
    const start = Native.parse(RECORDED) || Native.UTC(2020, 0);
    const callsOfStep = 25, stepMs = 50;
    let calls = 0, seed = 1;
    const now = () => start + Math.floor(calls++ / callsOfStep) * stepMs;
    function Fixed(...given) {
        if (!new.target) return new Native(now()).toString();
        return Reflect.construct(Native, given.length ? given : [now()], new.target);
    }
    Fixed.prototype = Native.prototype;
    Fixed.prototype.constructor = Fixed;
    Object.defineProperty(Fixed, 'name', {value: 'Date'});
    Object.defineProperty(Fixed, 'length', {value: Native.length});
    for (const [name, value] of Object.entries({now, parse: Native.parse, UTC: Native.UTC})) {
        Object.defineProperty(Fixed, name, {value, writable: true, configurable: true});
    }
    window.Date = Fixed;
    // Park and Miller's minimal standard generator.
    Math.random = () => (seed = seed * 48271 % 2147483647) / 2147483647;
})();
