// A drawing for models of images, so that the first screen is never empty. It is written byte by byte: Firefox adds noise to
// what is read back from a canvas, and the numbers of the example would differ from visit to visit.

const paper = [0xf3, 0xef, 0xe4], disc = [0x2d, 0x5b, 0xbd], square = [0xe0, 0x8a, 0x2e];
const kSamples = 4; // per side of a pixel: smooth edges

/// RGB, rows from the top.
export function examplePixels(width: number, height: number): Uint8Array {
  const pixels = new Uint8Array(3 * width * height), n = kSamples * kSamples;
  const colorOf = (x: number, y: number) =>
    x >= 0.6 * width && x < 0.86 * width && y >= 0.6 * height && y < 0.86 * height ? square : Math.hypot(x - 0.4 * width, y - 0.45 * height) < 0.24 * width ? disc : paper;
  for (let y = 0; y < height; ++y) {
    for (let x = 0; x < width; ++x) {
      const sum = [0, 0, 0];
      for (let i = 0; i < n; ++i) colorOf(x + ((i % kSamples) + 0.5) / kSamples, y + (Math.floor(i / kSamples) + 0.5) / kSamples).forEach((v, c) => (sum[c] += v));
      pixels.set(sum.map((v) => Math.round(v / n)), 3 * (y * width + x));
    }
  }
  return pixels;
}
function crc32(bytes: Uint8Array): number {
  let crc = -1;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; ++bit) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc >>> 0;
}
const bigEndian = (value: number) => [value >>> 24, (value >>> 16) & 255, (value >>> 8) & 255, value & 255];
function chunk(type: string, data: ArrayLike<number>): number[] {
  const body = [...Array.from(type, (c) => c.charCodeAt(0)), ...Array.from(data)];
  return [...bigEndian(data.length), ...body, ...bigEndian(crc32(Uint8Array.from(body)))];
}
/// A PNG file without compression.
export function toPngFile(pixels: Uint8Array, width: number, height: number): Uint8Array {
  const zlib = [0x78, 1];
  let a = 1, b = 0; // Adler-32
  for (let y = 0; y < height; ++y) { // a stored block for each row: its filter, which is none, and its pixels
    const size = 3 * width + 1, row = [0, ...pixels.subarray(3 * y * width, 3 * (y + 1) * width)];
    for (const byte of row) b = (b + (a = (a + byte) % 65521)) % 65521;
    zlib.push(y === height - 1 ? 1 : 0, size & 255, size >> 8, ~size & 255, (~size >> 8) & 255, ...row);
  }
  zlib.push(...bigEndian(((b << 16) | a) >>> 0));
  return Uint8Array.from([0x89, 0x50, 0x4e, 0x47, 13, 10, 26, 10, ...chunk('IHDR', [...bigEndian(width), ...bigEndian(height), 8, 2, 0, 0, 0]), ...chunk('IDAT', zlib), ...chunk('IEND', [])]);
}
/// As base64.
export function exampleImage(width: number, height: number): string {
  let text = '';
  for (const byte of toPngFile(examplePixels(width, height), width, height)) text += String.fromCharCode(byte);
  return btoa(text);
}
