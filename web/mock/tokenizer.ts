import type { Token } from '../src/lib/api/types';

const words = (
  'the cat sat on a mat dog ran to house and then it was she he they saw her him bird flew over tree big small red blue old new ' +
  'king queen man woman went home because tired hungry happy sad river moon sun star night day said what when where who why how ' +
  'is are not very more of in with for from by as at this that book read write love hate like good bad film movie best worst ' +
  'Paris France Seoul Korea capital city world time year people first last two three one ' +
  '고양이가 매트 위에 앉았다 강아지가 집으로 갔다 그리고 나는 너는 우리는 학교에 책을 읽었다 왜냐하면 배가 고팠기 때문이다 오늘 날씨가 좋다 영화가 재미있다'
).split(' ');

export const specials = ['[PAD]', '[CLS]', '[SEP]', '[MASK]', '<s>', '</s>'];
export const vocabulary: string[] = [...specials];
const byteBase = vocabulary.length;
for (let b = 0; b < 256; ++b) vocabulary.push(`<0x${b.toString(16).toUpperCase().padStart(2, '0')}>`);
for (const mark of '.,?!;:\'"') vocabulary.push(mark);
for (const word of words) vocabulary.push(word);
const idOf = new Map(vocabulary.map((word, id) => [word, id]));

function special(name: string): Token {
  return { id: idOf.get(name)!, label: name, text: '', special: true, group: -1, word: -1 };
}

/// Whole words where they are known, otherwise letters, and bytes for what is not ASCII.
function pieces(text: string, firstWord: number): Token[] {
  const found: Token[] = [];
  let word = firstWord - 1;
  for (const match of text.matchAll(/\s*(\[MASK\]|[.,?!;:'"]|[^\s.,?!;:'"]+)/g)) {
    const piece = match[1];
    if (piece.length > 1 || !/[.,?!;:'"]/.test(piece)) ++word;
    const space = match[0].slice(0, match[0].length - piece.length);
    if (piece === '[MASK]') {
      found.push({ ...special('[MASK]'), text: space + piece, word });
      continue;
    }
    const id = idOf.get(piece);
    if (id !== undefined) {
      found.push({ id, label: piece, text: space + piece, special: false, group: 0, word });
      continue;
    }
    let lead = space;
    for (const character of piece) {
      const bytes = new TextEncoder().encode(character);
      bytes.forEach((byte, i) => {
        const label = bytes.length > 1 ? `${character}(${i + 1}/${bytes.length})` : character;
        found.push({
          id: byteBase + byte, label, text: i === 0 ? lead + character : '', special: false,
          group: i === 0 ? 0 : -2, word,
        });
      });
      lead = '';
    }
  }
  return found;
}

export function tokenize(style: 'gpt' | 'bert' | 'seq2seq', text: string, pair?: string): Token[] {
  let tokens = pieces(text, 0);
  if (style === 'bert') {
    tokens = [special('[CLS]'), ...tokens, special('[SEP]')];
    if (pair !== undefined) tokens.push(...pieces(pair, 1000), special('[SEP]'));
  } else if (style === 'seq2seq') {
    tokens = [...tokens, special('</s>')];
  }
  let group = -1;
  return tokens.map((token) => ({ ...token, group: token.group === -2 ? group : ++group }));
}
export function named(id: number): Token {
  const text = vocabulary[id] ?? `token ${id}`;
  return { id, label: text, text: ` ${text}`, special: id < specials.length, group: 0, word: 0 };
}
