/** Preloaded into a server process: its wall clock goes wrong by SHIFT_CLOCK_MS; its monotonic clock stays right. */
const shift = Number(process.env.SHIFT_CLOCK_MS);
const RightDate = Date;

globalThis.Date = class extends RightDate {
  constructor(...given) {
    if (given.length === 0) super(RightDate.now() + shift);
    else super(...given);
  }

  static now() {
    return RightDate.now() + shift;
  }
};
