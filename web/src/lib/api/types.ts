// The protocol under /heed/v1/ as types. docs/formats/explorer-protocol.md describes every field.

export interface TensorJson {
  dtype: 'f32' | 'f64' | 'i32' | 'u8';
  shape: number[];
  data: string; // base64, little-endian, row-major
}
export type Range = [number, number];
export type Kind = string; // "self", "encoder", "decoder", "cross", "readout", "stage0" …
export type Side = string; // "source", "target"; "stage1" …: the patches of a later stage
/// Where the positions of a side stand in the picture, row by row from position `first` on.
export interface Grid { rows: number; columns: number; first: number }
/// A stage's: windows may need more places than there are patches, and patches more than the picture fills.
export interface StageGrid extends Grid { patch_rows: number; patch_columns: number; picture_rows: number; picture_columns: number; first_layer: number }

export interface AttentionInfo {
  kind: Kind; layers: number; heads: number; kv_heads: number; head_dim: number;
  causal: boolean; scale: number; softcap: number; window: number | null;
}
export interface Model {
  id: string; name: string; model_type: string;
  family: string;
  answers: 'next-token' | 'fill-mask' | 'class' | 'span' | 'answer-span' | 'target-token' | 'number' | 'embedding';
  inputs: { text: boolean; pair: boolean; target: boolean; image: boolean; audio: boolean; features: boolean };
  attentions: AttentionInfo[];
  hidden_size: number; intermediate_size: number; vocab_size: number; max_positions: number | null; parameters: number;
  norm: 'pre' | 'post' | 'none'; norm_type: string; activation: string; gated: boolean;
  position: string;
  mask_token: string | null;
  patch: Grid | null;
  image: { height: number; width: number; channels: number } | null;
  can: { why: boolean; lens: boolean; neurons: boolean; generate: boolean; beams: boolean; patching: boolean };
  examples: { en: string[]; ko: string[] };
}
export interface Run {
  id: string; name: string; task: string; live: boolean; steps: number; total_steps: number | null; model: string | null;
}
export interface Models {
  version: string; protocol: number; models: Model[]; runs: Run[];
  start: { model?: string; run?: string; text?: string };
}
export interface Token {
  id: number; label: string; text: string; special: boolean; group: number; word: number;
}
export interface Candidate { id: number; token: string; logit: number; probability: number; span?: [number, number] } // span: first and last token of an answer
export interface Prediction { position: number; candidates: Candidate[]; value?: number[]; logits?: TensorJson }
export interface TraceAttention {
  kind: Kind; layers: number; heads: number; queries: number; keys: number;
  query_side: Side; key_side: Side; causal: boolean; offset: number;
}
export type Intervention =
  | { type: 'head'; kind: Kind; layer: number; head: number; scale: number }
  | { type: 'edge'; kind: Kind; layer: number; head: number; query: number; key: number; mode: 'cut' | 'scale' | 'patch'; scale?: number; from?: string }
  | { type: 'position'; hook: string; position: number; mode: 'zero' | 'mean' | 'scale'; scale?: number }
  | { type: 'causal'; enabled: false }
  | { type: 'patch'; hook: string; position: number | null; head?: number; from: string; from_position?: number };
export interface TraceRequest {
  model: string; text?: string; pair?: string; target?: string; target_ids?: number[]; image?: string; audio?: string; features?: string;
  interventions?: Intervention[]; top_k?: number;
}
export interface Trace {
  id: string; model: string;
  input: { text?: string; pair?: string; target?: string; image?: string };
  sides: { source: Token[]; target?: Token[]; [stage: string]: Token[] | undefined };
  grids?: Record<Side, StageGrid>; // of a model that merges patches from stage to stage
  attentions: TraceAttention[];
  predictions_at: number[];
  prediction: Prediction;
  activations: { name: string; shape: number[] }[];
  interventions: Intervention[];
  generated: boolean;
  asked?: number; // the word that a reader is asked about; −1: none
  pass_seconds: number;
}
export interface HeadFigures {
  head: number; entropy: number; mean_distance: number; pattern: string;
  diagonal: number; previous: number; first: number; local: number; uniform: number; induction: number;
  output_share: number; thumbnail: TensorJson;
}
export interface Heads { kind: Kind; layer: number; rows_sampled: number; heads: HeadFigures[] }
export type TileWhat = 'weights' | 'scores' | 'value_weighted' | 'contribution' | 'rollout';
export interface Tile {
  kind: Kind; layer: number; head: number; what: TileWhat; level: number;
  rows: Range; columns: Range; rows_per_cell: number; values: TensorJson;
}
export interface Rows { queries: Range; index: TensorJson; weight: TensorJson }
export interface HeadData {
  kind: Kind; layer: number; head: number; queries: Range; keys: Range;
  scale: number; softcap: number; causal: boolean; offset: number; window: number | null;
  q: TensorJson; k: TensorJson; v: TensorJson; z: TensorJson; lse: TensorJson;
  bias: TensorJson | null; mask: TensorJson | null;
  global?: { rows: TensorJson; v: TensorJson }; // rows that read other values: Longformer's global tokens
}
export interface Neuron {
  index: number; pre: number; post: number; norm: number; promotes: { id: number; token: string; value: number }[];
}
export interface NormStats { mean: number; rstd: number }
export interface Steps {
  kind: Kind; layer: number; head: number; query: number;
  embed: TensorJson | null; pos_embed: TensorJson | null; other_embed: TensorJson | null; embed_norm: boolean; embed_sum: TensorJson | null;
  resid_pre: TensorJson; normalized: TensorJson;
  concat: TensorJson; head_norms: TensorJson; source_norms: TensorJson | null; w_o: TensorJson | null;
  attn_out: TensorJson; resid_mid: TensorJson; mlp_in: TensorJson | null; mlp_out: TensorJson | null; resid_post: TensorJson;
  norm_stats: { attention: NormStats | null; mlp: NormStats | null };
  neurons: Neuron[]; neurons_total: number; neurons_active: number;
  pre_norm: boolean;
}
export interface Part {
  name: string;
  type: 'embed' | 'position' | 'segment' | 'head' | 'attention_bias' | 'mlp' | 'norm_bias' | 'bias' | 'encoder' | 'other' | 'rounding';
  kind?: Kind; layer?: number; head?: number;
}
export interface Why {
  kind: Kind; layer: number; head: number; query: number; key: number;
  score: number; weight: number; linearised: boolean;
  query_parts: Part[]; key_parts: Part[]; values: TensorJson; bias: number; remainder: number;
}
export interface Attribution {
  position: number; token: number; against: number | null; logit: number;
  parts: { part: Part; value: number }[]; remainder: number; integrated?: boolean;
}
export interface LensRow {
  name: string; layer: number; part: 'embed' | 'attn' | 'mlp'; candidates: Candidate[]; value?: number[]; probability?: number; rank?: number;
}
export interface Lens { position: number; rows: LensRow[] }
export interface Experiment {
  before: Prediction; after: Prediction;
  merged: { id: number; token: string; before: number; after: number }[];
  kl: number; trace: string;
}
export interface Patching { layer: number; what: string; values: TensorJson; clean: number; corrupt: number }
export interface Activation { name: string; shape: number[]; rows: Range; columns: Range; values: TensorJson }
export interface GeneratedToken {
  index: number; token: Token; probability: number; candidates: Candidate[];
  attention: { kind: Kind; layer: number; head: number; keys: number; top: { key: number; weight: number }[] };
}
export interface Beams { step: number; hypotheses: { beam: number; parent: number; id: number; token: string; score: number; finished: boolean }[] }
export interface Generated { text: string; tokens: number; seconds: number; finish_reason: string }
export interface MetricRow { step: number; loss?: number; [name: string]: number | boolean | undefined }
export interface Metrics { run: Run; rows: MetricRow[] }
export interface Sample { step: number; input: string; target: string; output: string }
export interface Tracked {
  steps: number[];
  examples: { tokens?: string[]; target_tokens?: string[]; // none: an image's patches
    attentions: { kind: Kind; layers: number; heads: number }[] }[];
}
export interface TrackedMaps { steps: number[]; rows: number; columns: number; values: TensorJson; entropy: TensorJson }
