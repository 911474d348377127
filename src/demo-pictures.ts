import sharp from 'sharp';

/** Product pictures drawn from nothing, so that a demo needs no files: a shape on a soft backdrop. */

export type Shape = 'bottle' | 'box' | 'ball' | 'cup';

type Colour = readonly [number, number, number];

const WIDTH = 720;
const HEIGHT = 720;

/** A JPEG of `WIDTH` x `HEIGHT` pixels. */
export function drawProduct(shape: Shape, colour: Colour): Promise<Buffer> {
  const pixels = Buffer.alloc(WIDTH * HEIGHT * 3);
  for (let y = 0; y < HEIGHT; y++) {
    for (let x = 0; x < WIDTH; x++) {
      const [r, g, b] = pixelAt((x / WIDTH) * 2 - 1, (y / HEIGHT) * 2 - 1, shape, colour);
      pixels.set([r, g, b], (y * WIDTH + x) * 3);
    }
  }
  return sharp(pixels, { raw: { width: WIDTH, height: HEIGHT, channels: 3 } })
    .blur(0.6)
    .jpeg({ quality: 88 })
    .toBuffer();
}

function pixelAt(x: number, y: number, shape: Shape, colour: Colour): Colour {
  if (isInside(shape, x, y)) {
    const isLabel = shape !== 'ball' && y > 0.05 && y < 0.4 && Math.abs(x) < 0.24;
    const light = 1.12 - 0.45 * Math.abs(x + 0.25) - 0.12 * y;
    return shade(isLabel ? [246, 241, 230] : colour, light);
  }
  const shadow = Math.exp(-(((x / 0.55) ** 2 + ((y - 0.78) / 0.09) ** 2) ** 1)) * 0.28;
  return shade([236, 238, 242], (y > 0.72 ? 0.95 : 1.02 - 0.05 * y) * (1 - shadow));
}

function isInside(shape: Shape, x: number, y: number): boolean {
  if (shape === 'ball') return Math.hypot(x, y - 0.15) < 0.6;
  if (shape === 'box') return Math.abs(x) < 0.48 && y > -0.4 && y < 0.75;
  if (shape === 'cup') return y > -0.45 && y < 0.75 && Math.abs(x) < 0.46 - 0.14 * (y + 0.45);
  const neck = y > -0.8 && y <= -0.45 && Math.abs(x) < 0.12;
  const shoulder =
    y > -0.45 && y <= -0.15 && Math.abs(x) < 0.12 + 0.22 * Math.sin(((y + 0.45) / 0.3) * (Math.PI / 2));
  return neck || shoulder || (y > -0.15 && y < 0.75 && Math.abs(x) < 0.34);
}

function shade([r, g, b]: Colour, light: number): Colour {
  const lit = (value: number) => Math.max(0, Math.min(255, Math.round(value * light)));
  return [lit(r), lit(g), lit(b)];
}
