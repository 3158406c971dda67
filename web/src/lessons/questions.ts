import type { Language } from '../lib/i18n/index.svelte';
import type { Screen } from '../lib/state/selection.svelte';

/// One question for each lesson: think first, then see.
export interface Question { ask: string; options: string[]; answer: number; because: string }
export interface Lesson { screen: Screen; step?: number; questions: Record<Language, Question> }

export const lessons: Lesson[] = [
  { screen: 'steps', step: 3, questions: {
    en: { ask: 'Vectors of 64 numbers instead of 4, without the division by √d_k: what happens to the weights?', options: ['They become more even', 'One weight takes nearly everything', 'Nothing changes'], answer: 1, because: 'Scores grow like √d_k, and the softmax of large scores saturates. Move the slider of step 4 and watch it happen.' },
    ko: { ask: '4차원 대신 64차원 벡터를 쓰면서 √d_k로 나누지 않으면 가중치는 어떻게 될까요?', options: ['더 고르게 퍼집니다', '한 곳이 거의 다 가져갑니다', '달라지지 않습니다'], answer: 1, because: '점수는 √d_k에 비례해 커지고, 큰 점수의 소프트맥스는 포화됩니다. 4단계의 슬라이더를 움직여 직접 확인해 보십시오.' } } },
  { screen: 'map', questions: {
    en: { ask: 'Two heads of width 16 instead of one of width 32. Why can they solve what one cannot?', options: ['They have more parameters', 'Each has weights of its own', 'They run faster'], answer: 1, because: 'The number of parameters is the same. But one head has one row of weights per word: it can only return a single mixture.' },
    ko: { ask: '너비 32인 헤드 하나 대신 너비 16인 헤드 둘을 씁니다. 왜 둘은 풀고 하나는 못 풀까요?', options: ['파라미터가 더 많아서', '헤드마다 가중치가 따로 있어서', '더 빨라서'], answer: 1, because: '파라미터 수는 같습니다. 하지만 헤드 하나는 단어마다 가중치가 한 줄뿐이라, 섞인 결과를 하나만 돌려줍니다.' } } },
  { screen: 'steps', step: 7, questions: {
    en: { ask: 'Eight small matrices are put side by side into one. How do the outputs change?', options: ['Only by rounding', 'They get better', 'They must be trained again'], answer: 0, because: 'It is the same sum in another order. The page shows the heads as stripes of one vector in step 8.' },
    ko: { ask: '작은 행렬 여덟 개를 나란히 붙여 하나로 만들면 출력은 어떻게 달라질까요?', options: ['반올림 오차만큼만 달라집니다', '더 좋아집니다', '다시 학습해야 합니다'], answer: 0, because: '순서만 다를 뿐 같은 합입니다. 8단계에서 헤드들이 한 벡터의 줄무늬로 보입니다.' } } },
  { screen: 'steps', step: 4, questions: {
    en: { ask: 'The mask sets a score to −∞. What weight does that key get after the softmax?', options: ['A very small one', 'Exactly 0', 'A negative one'], answer: 1, because: 'exp(−∞) = 0, and the others still sum to 1. Switch the mask off in step 5 to see what it hides.' },
    ko: { ask: '마스크는 점수를 −∞로 만듭니다. 소프트맥스 뒤에 그 키의 가중치는 얼마일까요?', options: ['아주 작은 값', '정확히 0', '음수'], answer: 1, because: 'exp(−∞) = 0이고 나머지의 합은 그대로 1입니다. 5단계에서 마스크를 꺼 보면 무엇을 가렸는지 보입니다.' } } },
  { screen: 'map', questions: {
    en: { ask: '32,768 tokens: how large is one head’s matrix of weights in f32?', options: ['4 MB', '128 MB', '4 GB'], answer: 2, because: '32,768² × 4 bytes = 4 GiB. This page never holds it: it asks for tiles of 256 × 256.' },
    ko: { ask: '토큰이 32,768개일 때 헤드 하나의 가중치 행렬은 f32로 얼마나 클까요?', options: ['4 MB', '128 MB', '4 GB'], answer: 2, because: '32,768² × 4바이트 = 4 GiB입니다. 이 페이지는 행렬 전체를 갖지 않고 256 × 256 타일만 받아 옵니다.' } } },
  { screen: 'map', questions: {
    en: { ask: 'A head has an entropy near 0 bits. What does its map look like?', options: ['One bright cell per row', 'Evenly grey', 'Bright in the first column only'], answer: 0, because: 'Low entropy: each row puts its weight on one key. Which one it is says the pattern. Sort the map by entropy.' },
    ko: { ask: '엔트로피가 0비트에 가까운 헤드의 맵은 어떻게 보일까요?', options: ['행마다 진한 칸이 하나', '고르게 옅음', '첫 열만 진함'], answer: 0, because: '엔트로피가 낮으면 행마다 가중치가 한 키에 몰립니다. 그게 어느 키인지는 패턴이 말해 줍니다. 맵을 엔트로피순으로 정렬해 보십시오.' } } },
  { screen: 'steps', step: 0, questions: {
    en: { ask: 'Without any position information, “dog bites man” and “man bites dog” give “dog” …', options: ['the same vector', 'opposite vectors', 'different vectors'], answer: 0, because: 'Attention is a mean over a set and knows no order. Step 1 shows how this model adds it.' },
    ko: { ask: '위치 정보가 전혀 없다면 “개가 사람을 문다”와 “사람을 개가 문다”에서 “개가”의 벡터는 …', options: ['같습니다', '정반대입니다', '다릅니다'], answer: 0, because: '어텐션은 집합의 평균이라 순서를 모릅니다. 이 모델이 순서를 어떻게 넣는지는 1단계에서 볼 수 있습니다.' } } },
  { screen: 'map', questions: {
    en: { ask: 'In cross-attention, where do keys and values come from?', options: ['The decoder', 'The encoder', 'Both'], answer: 1, because: 'The decoder asks (queries), the encoder answers (keys and values).' },
    ko: { ask: '크로스 어텐션에서 키와 밸류는 어디에서 올까요?', options: ['디코더', '인코더', '둘 다'], answer: 1, because: '디코더가 묻고(쿼리) 인코더가 답합니다(키와 밸류).' } } },
  { screen: 'map', questions: {
    en: { ask: 'Reading seven letters backwards: which picture do the weights form?', options: ['A diagonal from top right to bottom left', 'A bright first column', 'An even grey'], answer: 0, because: 'Each output needs exactly one letter, from the last to the first.' },
    ko: { ask: '일곱 글자를 거꾸로 읽을 때 가중치는 어떤 그림이 될까요?', options: ['오른쪽 위에서 왼쪽 아래로 가는 대각선', '진한 첫 열', '고르게 옅음'], answer: 0, because: '출력마다 글자가 딱 하나씩, 끝에서 처음 순서로 필요하기 때문입니다.' } } },
  { screen: 'experiments', questions: {
    en: { ask: '“not good”: does the word with the most weight alone decide the class?', options: ['Yes', 'No, the combination does'], answer: 1, because: 'Swap one word in Experiments and see what the classifier says of the new combination.' },
    ko: { ask: '“안 좋다”에서 가중치가 가장 큰 단어 혼자 분류를 결정할까요?', options: ['그렇습니다', '아닙니다, 조합이 결정합니다'], answer: 1, because: '실험 화면에서 단어 하나를 바꾸고, 새 조합을 분류기가 어떻게 판단하는지 보십시오.' } } },
  { screen: 'read', questions: {
    en: { ask: 'A captioner writes “left of”. Where must it look?', options: ['At one region', 'At the regions of both shapes', 'At the border of the picture'], answer: 1, because: 'The relation needs both places, and each region must carry a mark of where it is.' },
    ko: { ask: '캡션 모델이 “왼쪽에”를 쓸 때는 어디를 봐야 할까요?', options: ['한 영역', '두 도형이 있는 영역 모두', '그림 가장자리'], answer: 1, because: '관계를 알려면 두 위치가 모두 필요하고, 영역마다 자기 위치를 나타내는 표시도 있어야 합니다.' } } },
  { screen: 'steps', step: 10, questions: {
    en: { ask: 'A higher temperature makes the next token …', options: ['more predictable', 'more varied'], answer: 1, because: 'Logits are divided by it: the distribution becomes flatter. Try the slider in step 11.' },
    ko: { ask: '온도를 높이면 다음 토큰은 …', options: ['더 뻔해집니다', '더 다양해집니다'], answer: 1, because: '로짓을 온도로 나누므로 분포가 평평해집니다. 11단계의 슬라이더로 확인해 보십시오.' } } },
  { screen: 'train', questions: {
    en: { ask: 'Activation checkpointing saves memory. What does it cost?', options: ['Accuracy', 'About a third more work', 'Nothing'], answer: 1, because: 'Each block runs once more during the backward pass. The gradients are equal to the last bit.' },
    ko: { ask: '활성값 체크포인팅은 메모리를 아낍니다. 대가는 무엇일까요?', options: ['정확도', '약 3분의 1 더 많은 계산', '없습니다'], answer: 1, because: '역전파 때 블록을 한 번 더 실행합니다. 기울기는 마지막 비트까지 같습니다.' } } },
  { screen: 'read', questions: {
    en: { ask: 'Which file of a model folder says how many heads there are?', options: ['config.json', 'model.safetensors', 'tokenizer.json'], answer: 0, because: 'config.json describes the architecture; the weights alone do not say how they are cut into heads.' },
    ko: { ask: '모델 폴더에서 헤드가 몇 개인지 알려 주는 파일은 무엇일까요?', options: ['config.json', 'model.safetensors', 'tokenizer.json'], answer: 0, because: 'config.json이 구조를 설명합니다. 가중치만으로는 헤드를 어떻게 나누는지 알 수 없습니다.' } } },
  { screen: 'why', questions: {
    en: { ask: 'A head looks at a word. Does the prediction depend on that head?', options: ['Always', 'Only an experiment can tell'], answer: 1, because: 'Ablate the head and compare the prediction before and after: weights show where a head looks, not whether it matters.' },
    ko: { ask: '어떤 헤드가 한 단어를 보고 있습니다. 예측은 그 헤드에 달려 있을까요?', options: ['언제나 그렇습니다', '실험해 봐야 압니다'], answer: 1, because: '헤드를 끄고 예측을 전후로 비교해 보십시오. 가중치는 어디를 보는지 알려 줄 뿐, 그것이 중요한지는 알려 주지 않습니다.' } } },
  { screen: 'read', questions: {
    en: { ask: 'Twenty passages are read one by one instead of joined into one input. What becomes of the number of scores?', options: ['It stays the same', 'It becomes twenty times smaller', 'It becomes twice as large'], answer: 1, because: 'Joined, every token is compared with the tokens of all twenty passages. One by one, only with those of its own; the decoder still looks at all of them.' },
    ko: { ask: '글 스무 개를 하나로 잇지 않고 하나씩 따로 읽습니다. 점수의 개수는 어떻게 될까요?', options: ['그대로입니다', '20분의 1이 됩니다', '두 배가 됩니다'], answer: 1, because: '하나로 이으면 모든 토큰을 스무 글의 토큰과 견줍니다. 따로 읽으면 자기 글의 토큰과만 견주고, 디코더는 그래도 모두 봅니다.' } } },
  { screen: 'map', questions: {
    en: { ask: 'A text becomes twice as long. How much more do the weights of all heads take?', options: ['Twice as much', 'Four times as much', 'Eight times as much'], answer: 1, because: 'Every word looks at every word: twice the rows and twice the columns. The page holds tiles, never the whole matrix.' },
    ko: { ask: '글이 두 배로 길어졌습니다. 모든 헤드의 가중치는 몇 배가 될까요?', options: ['두 배', '네 배', '여덟 배'], answer: 1, because: '모든 단어가 모든 단어를 보므로 행도 열도 두 배가 됩니다. 이 페이지는 행렬 전체가 아니라 타일만 가지고 있습니다.' } } },
];

/// The question of a lesson by its title ("7. Positions"); a new lesson may have none yet.
export function lessonOf(title: string): Lesson | undefined {
  return lessons[parseInt(title, 10) - 1];
}
