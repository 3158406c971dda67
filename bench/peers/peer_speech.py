"""Whisper through CTranslate2 in f32 by faster-whisper, decoding as heed does: greedily, with timestamps."""
from faster_whisper import WhisperModel
from protocol import serve


class Transcribe:
    def __init__(self, command):
        self.model = WhisperModel(command["model"], device="cpu", compute_type="float32", cpu_threads=command["threads"])
        self.audio, self.text = command["audio"], ""

    def run(self):
        segments, _ = self.model.transcribe(self.audio, beam_size=1, temperature=0.0, condition_on_previous_text=False)
        self.text = "".join(segment.text for segment in segments).strip()

    def values(self):
        return list(self.text.encode())


serve(Transcribe)
