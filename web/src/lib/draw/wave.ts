const kRate = 16000; // what speech models hear

/// The bytes of a recording that heed can read: WAV and FLAC as they are, other formats decoded by the browser into mono WAV.
export async function toWave(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
  const begins = (name: string) => [...name].every((c, i) => bytes[i] === c.charCodeAt(0));
  if (begins('RIFF') || begins('fLaC')) return bytes;
  const sound = await new OfflineAudioContext(1, 1, kRate).decodeAudioData(bytes.buffer.slice(0));
  const samples = new Float32Array(sound.length);
  for (let c = 0; c < sound.numberOfChannels; ++c) sound.getChannelData(c).forEach((x, i) => (samples[i] += x / sound.numberOfChannels));
  return waveFile(samples, kRate);
}
/// 16-bit PCM with the header of a WAV file.
export function waveFile(samples: Float32Array, rate: number): Uint8Array<ArrayBuffer> {
  const file = new Uint8Array(44 + 2 * samples.length), view = new DataView(file.buffer);
  const name = (at: number, text: string) => file.set(new TextEncoder().encode(text), at);
  name(0, 'RIFF');
  view.setUint32(4, 36 + 2 * samples.length, true);
  name(8, 'WAVEfmt ');
  [[16, 16, 4], [20, 1, 2], [22, 1, 2], [24, rate, 4], [28, 2 * rate, 4], [32, 2, 2], [34, 16, 2], [40, 2 * samples.length, 4]].forEach(([at, value, size]) => (size === 4 ? view.setUint32(at, value, true) : view.setUint16(at, value, true)));
  name(36, 'data');
  samples.forEach((x, i) => view.setInt16(44 + 2 * i, Math.max(-32768, Math.min(32767, Math.round(32768 * x))), true));
  return file;
}

/// The samples of a recording, base64 of its file, as the browser decodes it.
export async function decodeSound(file: string): Promise<{ samples: Float32Array; seconds: number }> {
  const bytes = Uint8Array.from(atob(file), (c) => c.charCodeAt(0));
  const sound = await new OfflineAudioContext(1, 1, kRate).decodeAudioData(bytes.buffer);
  return { samples: sound.getChannelData(0), seconds: sound.duration };
}
/// Two seconds of a tone that rises and swells, for a model of speech without a recording.
export function exampleSound(): Uint8Array<ArrayBuffer> {
  let phase = 0;
  return waveFile(Float32Array.from({ length: 2 * kRate }, (_, i) => {
    const at = i / (2 * kRate);
    phase += (2 * Math.PI * (120 + 180 * at)) / kRate;
    return Math.sin(Math.PI * at) * (0.3 * Math.sin(phase) + 0.15 * Math.sin(2 * phase) + 0.1 * Math.sin(5 * phase));
  }), kRate);
}
