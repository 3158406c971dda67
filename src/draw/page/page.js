'use strict';
const words = {
  en: {
    kind: 'Attention', layer: 'Layer', head: 'Head', language: '한국어', theme: 'Light or dark',
    query: 'Query', key: 'Key', weight: 'Weight', rank: 'Rank', position: 'Position',
    tokens: 'Tokens: choose a query, colours show what it attends to',
    map: 'Attention map', row: 'What this query attends to', heads: 'Heads of this layer',
    inOrder: 'In order of the text', byWeight: 'Strongest first',
    pooled: 'A cell shows the largest weight of the tokens it covers; the table beside it has exact values of the strongest keys.',
    honest: 'A weight says where a head reads from. It does not by itself say what caused the result.',
    keys: 'Arrow keys move, Home and End go to the row’s ends, Page Up and Page Down change the head.',
    sum: 'Sum of the row', image: 'What this query attends to in the image',
    kinds: {self: 'Self', encoder: 'Encoder', decoder: 'Decoder', cross: 'Cross', readout: 'Readout'},
  },
  ko: {
    kind: '어텐션', layer: '층', head: '헤드', language: 'English', theme: '밝게 또는 어둡게',
    query: '쿼리', key: '키', weight: '가중치', rank: '순위', position: '위치',
    tokens: '토큰: 쿼리를 고르면 색이 어디를 보는지 알려 줍니다',
    map: '어텐션 맵', row: '이 쿼리가 보는 곳', heads: '이 층의 헤드',
    inOrder: '글의 순서대로', byWeight: '큰 값부터',
    pooled: '한 칸은 그 칸이 나타내는 토큰들의 가장 큰 가중치입니다. 옆의 표에 가장 강한 키들의 정확한 값이 있습니다.',
    honest: '가중치는 헤드가 어디에서 읽는지를 말할 뿐, 그것만으로 결과의 원인을 말하지는 않습니다.',
    keys: '화살표 키로 움직이고, Home과 End는 행의 끝으로, Page Up과 Page Down은 헤드를 바꿉니다.',
    sum: '행의 합', image: '이 쿼리가 그림에서 보는 곳',
    kinds: {self: '셀프', encoder: '인코더', decoder: '디코더', cross: '크로스', readout: '판독'},
  },
};

const data = JSON.parse(document.getElementById('data').textContent);
const bytesOf = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
const colors = bytesOf(data.colors);
for (const group of data.groups) {
  for (const map of group.maps) {
    map.values = new Float32Array(bytesOf(map.values).buffer);
    if (map.topIndex) {
      map.topIndex = new Int32Array(bytesOf(map.topIndex).buffer);
      map.topWeight = new Float32Array(bytesOf(map.topWeight).buffer);
    }
  }
}

const state = {group: 0, map: 0, row: 0, column: 0, query: 0, language: data.language, ordered: false};
const byId = (id) => document.getElementById(id);
const say = (key) => words[state.language][key];
const group = () => data.groups[state.group];
const current = () => group().maps[state.map];
const pooled = () => current().rows < group().rowCount || current().columns < group().columnCount;
const first = (cell, cells, size) => Math.floor(cell * size / cells);
const cellOf = (token, cells, size) => Math.ceil((token + 1) * cells / size) - 1;
/** The chosen query as a token: one of those that the chosen row covers. */
function rowToken() {
  const from = first(state.row, current().rows, group().rowCount);
  const to = first(state.row + 1, current().rows, group().rowCount);
  return state.query >= from && state.query < to ? state.query : from;
}
const shown = (value) => (value >= 0.0001 || value === 0 ? value.toFixed(4) : value.toExponential(2));

function element(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

function label(labels, cell, cells, size) {
  const from = first(cell, cells, size);
  const to = first(cell + 1, cells, size) - 1;
  if (to > from) return `${from}–${to}`;
  return labels.length ? labels[from] : String(from);
}
const rowLabel = (row) => label(group().rows, row, current().rows, group().rowCount);
const columnLabel = (column) => label(group().columns, column, current().columns, group().columnCount);

function rgb(value, map = current()) {
  if (!Number.isFinite(value)) return [205, 207, 211];
  const share = Math.min(Math.max((value - map.low) / (map.high - map.low), 0), 1) ** map.gamma;
  const at = 3 * Math.round(share * 255);
  return [colors[at], colors[at + 1], colors[at + 2]];
}
const css = (c) => `rgb(${c[0]} ${c[1]} ${c[2]})`;
const readable = (c) => (0.2126 * (c[0] / 255) ** 2.2 + 0.7152 * (c[1] / 255) ** 2.2 +
                         0.0722 * (c[2] / 255) ** 2.2 > 0.179 ? '#000' : '#fff');

/** The cells as a bitmap of one pixel a cell, made once. */
function bitmap(map) {
  if (map.bitmap) return map.bitmap;
  const canvas = element('canvas', {width: map.columns, height: map.rows});
  const context = canvas.getContext('2d');
  const image = context.createImageData(map.columns, map.rows);
  for (let i = 0; i < map.values.length; ++i) {
    const c = rgb(map.values[i], map);
    image.data[4 * i] = c[0];
    image.data[4 * i + 1] = c[1];
    image.data[4 * i + 2] = c[2];
    image.data[4 * i + 3] = 255;
  }
  context.putImageData(image, 0, 0);
  map.bitmap = canvas;
  return canvas;
}

const layout = {cell: 0, left: 0, width: 0, height: 0};

function drawMap() {
  const map = current();
  const side = Math.max(map.rows, map.columns);
  const cell = Math.max(Math.min(620 / side, 52), side > 620 ? 620 / side : 1);
  const labelled = cell >= 11;
  const size = Math.min(Math.max(cell * 0.72, 9), 13);
  const canvas = byId('map');
  const context = canvas.getContext('2d');
  const font = `${size}px ${getComputedStyle(document.body).fontFamily}`;
  context.font = font;
  const cut = (text) => ([...text].length > 16 ? [...text].slice(0, 15).join('') + '…' : text);
  const widest = (count, name) => {
    let most = 0;
    for (let i = 0; i < count; ++i) most = Math.max(most, context.measureText(cut(name(i))).width);
    return most;
  };
  const left = labelled ? widest(map.rows, rowLabel) + 8 : 0;
  const below = labelled ? widest(map.columns, columnLabel) : 0;
  const upright = below <= cell - 2;
  const foot = labelled ? (upright ? size + 8 : below + 10) : 0;
  Object.assign(layout, {cell, left, width: cell * map.columns, height: cell * map.rows});
  const density = window.devicePixelRatio || 1;
  const width = left + layout.width + 2;
  const height = layout.height + foot + 2;
  canvas.width = Math.ceil(width * density);
  canvas.height = Math.ceil(height * density);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  context.setTransform(density, 0, 0, density, 0, 0);
  context.imageSmoothingEnabled = false;
  context.drawImage(bitmap(map), left, 0, layout.width, layout.height);
  const style = getComputedStyle(document.documentElement);
  context.font = font;
  context.textBaseline = 'middle';
  context.fillStyle = style.getPropertyValue('--ink');
  for (let r = 0; labelled && r < map.rows; ++r) {
    context.textAlign = 'right';
    context.fillText(cut(rowLabel(r)), left - 5, (r + 0.5) * cell);
  }
  for (let c = 0; labelled && c < map.columns; ++c) {
    context.save();
    context.translate(left + (c + 0.5) * cell, layout.height + 5);
    if (!upright) context.rotate(-Math.PI / 2);
    context.textAlign = upright ? 'center' : 'right';
    context.fillText(cut(columnLabel(c)), 0, upright ? size / 2 + 1 : 0);
    context.restore();
  }
  if (cell >= 34) {
    context.textAlign = 'center';
    for (let i = 0; i < map.values.length; ++i) {
      const value = map.values[i];
      context.fillStyle = readable(rgb(value));
      context.fillText(Number.isFinite(value) ? value.toFixed(2) : '−∞',
                       left + (i % map.columns + 0.5) * cell,
                       (Math.floor(i / map.columns) + 0.5) * cell);
    }
  }
  context.strokeStyle = style.getPropertyValue('--mark');
  context.lineWidth = 2;
  const height1 = Math.max(cell, 2);
  context.strokeRect(left, state.row * cell, layout.width, height1);
  context.strokeRect(left + state.column * cell, state.row * cell, height1, height1);
}

function describe() {
  const map = current();
  const value = map.values[state.row * map.columns + state.column];
  const text = `${say('query')} ${rowLabel(state.row)} → ${say('key')} ${columnLabel(state.column)}: ` +
               `${Number.isFinite(value) ? shown(value) : '−∞'}`;
  byId('status').textContent = text;
  byId('active').textContent = text;
  byId('active').setAttribute('aria-colindex', state.column + 1);
  byId('active-row').setAttribute('aria-rowindex', state.row + 1);
}

/** [{key, weight}] of the chosen query: every key, or the strongest where the map is pooled. */
function rowWeights() {
  const map = current();
  const query = rowToken();
  const list = [];
  if (map.topIndex) {
    for (let i = 0; i < map.k; ++i) {
      const weight = map.topWeight[query * map.k + i];
      if (weight > 0) list.push({key: map.topIndex[query * map.k + i], weight});
    }
  } else {
    for (let c = 0; c < map.columns; ++c) {
      list.push({key: first(c, map.columns, group().columnCount),
                 weight: map.values[state.row * map.columns + c]});
    }
  }
  return list;
}

function drawTable() {
  const list = rowWeights();
  const total = list.reduce((sum, entry) => sum + (Number.isFinite(entry.weight) ? entry.weight : 0), 0);
  const most = Math.max(...list.map((entry) => Math.abs(entry.weight)).filter(Number.isFinite), 1e-12);
  list.sort((a, b) => (state.ordered ? a.key - b.key : b.weight - a.weight));
  const head = element('tr', {}, ...['rank', 'position', 'key', 'weight', ''].map(
      (name) => element('th', {scope: 'col'}, name ? say(name) : '')));
  const rows = list.slice(0, 200).map((entry, i) => {
    const fill = element('div', {class: 'fill'});
    fill.style.width = `${100 * Math.max(entry.weight, 0) / most}%`;
    const token = group().columns.length ? group().columns[entry.key] : String(entry.key);
    return element('tr', {}, element('td', {class: 'number'}, String(i + 1)),
                   element('td', {class: 'number'}, String(entry.key)),
                   element('td', {class: 'token'}, token),
                   element('td', {class: 'number'}, shown(entry.weight)),
                   element('td', {class: 'bar'}, fill));
  });
  byId('table').replaceChildren(element('thead', {}, head), element('tbody', {}, ...rows));
  const name = group().rows.length ? group().rows[rowToken()] : String(rowToken());
  byId('row-title').textContent = `${say('row')}: ${name}`;
  byId('sum').textContent = current().topIndex ? '' : `${say('sum')}: ${total.toFixed(4)}`;
}

function drawTokens() {
  const query = rowToken();
  const columns = group().columns.length ? group().columns : null;
  const strip = byId('tokens');
  strip.replaceChildren();
  if (!columns) return;
  const weights = new Map(rowWeights().map((entry) => [entry.key, entry.weight]));
  const same = group().rowCount === group().columnCount;
  const from = Math.max(0, Math.min(query - 100, columns.length - 200));
  for (let i = from; i < Math.min(from + 200, columns.length); ++i) {
    const color = rgb(weights.get(i) || 0);
    const button = element('button', {type: 'button', 'aria-pressed': String(same && i === query),
                                      title: shown(weights.get(i) || 0),
                                      onclick: () => choose(same ? i : null, i)}, columns[i] || ' ');
    button.style.background = css(color);
    button.style.color = readable(color);
    strip.append(button);
  }
}

function drawHeads() {
  const layer = current().layer;
  const buttons = group().maps.map((map, index) => ({map, index})).filter(({map}) => map.layer === layer);
  byId('heads').replaceChildren(...(buttons.length < 2 ? [] : buttons.map(({map, index}) => {
    const canvas = element('canvas', {width: 64, height: 64, 'aria-hidden': 'true'});
    const context = canvas.getContext('2d');
    context.imageSmoothingEnabled = map.columns > 64;
    context.drawImage(bitmap(map), 0, 0, 64, 64);
    return element('button', {type: 'button', 'aria-pressed': String(index === state.map),
                              onclick: () => { state.map = index; clampCell(); render(); }},
                   canvas, `${say('head')} ${map.head}`);
  })));
}

function drawImage() {
  const section = byId('image-section');
  const patch = group().patch;
  section.hidden = !patch;
  if (!patch) return;
  const picture = new Image();
  picture.onload = () => {
    const canvas = byId('image');
    const scale = 320 / Math.max(picture.width, picture.height);
    canvas.width = picture.width * scale;
    canvas.height = picture.height * scale;
    const context = canvas.getContext('2d');
    context.imageSmoothingEnabled = false;
    context.drawImage(picture, 0, 0, canvas.width, canvas.height);
    const list = rowWeights().filter((entry) => entry.key >= patch.first);
    const most = Math.max(...list.map((entry) => entry.weight), 1e-12);
    const wide = canvas.width / patch.columns;
    const tall = canvas.height / patch.rows;
    for (const {key, weight} of list) {
      const at = key - patch.first;
      context.fillStyle = `rgb(255 120 0 / ${0.75 * weight / most})`;
      context.fillRect(at % patch.columns * wide, Math.floor(at / patch.columns) * tall, wide, tall);
    }
  };
  picture.src = group().image;
}

function drawLegend() {
  const canvas = byId('legend');
  canvas.width = 256;
  canvas.height = 1;
  const context = canvas.getContext('2d');
  const image = context.createImageData(256, 1);
  for (let i = 0; i < 256; ++i) image.data.set([...colors.slice(3 * i, 3 * i + 3), 255], 4 * i);
  context.putImageData(image, 0, 0);
  byId('low').textContent = current().low.toFixed(2);
  byId('high').textContent = current().high.toFixed(2);
}

function options(select, values, chosen) {
  select.replaceChildren(...values.map(([value, text]) => {
    const option = element('option', {value}, text);
    option.selected = value === chosen;
    return option;
  }));
  select.disabled = values.length < 2;
}

function drawControls() {
  for (const node of document.querySelectorAll('[data-word]')) {
    node.textContent = say(node.dataset.word);
  }
  document.documentElement.lang = state.language;
  const maps = group().maps;
  options(byId('kind'), data.groups.map((g, i) => [String(i), say('kinds')[g.kind] || g.kind]),
          String(state.group));
  const layers = [...new Set(maps.map((map) => map.layer))];
  options(byId('layer'), layers.map((layer) => [String(layer), String(layer)]), String(current().layer));
  options(byId('head'), maps.map((map, i) => [map, i]).filter(([map]) => map.layer === current().layer)
          .map(([map, i]) => [String(i), String(map.head)]), String(state.map));
  byId('query').max = group().rowCount - 1;
  byId('query').value = rowToken();
  byId('order').textContent = say(state.ordered ? 'byWeight' : 'inOrder');
  byId('pooled').hidden = !pooled();
  byId('grid').setAttribute('aria-label', `${say('map')}, ${say('layer')} ${current().layer}, ` +
                                          `${say('head')} ${current().head}`);
  byId('grid').setAttribute('aria-rowcount', current().rows);
  byId('grid').setAttribute('aria-colcount', current().columns);
}

function render() {
  drawControls();
  drawMap();
  describe();
  drawTable();
  drawTokens();
  drawHeads();
  drawImage();
  drawLegend();
  history.replaceState(null, '', `#g=${state.group}&m=${state.map}&r=${state.row}&c=${state.column}` +
                                 `&l=${state.language}`);
}

function clampCell() {
  state.row = Math.min(Math.max(state.row, 0), current().rows - 1);
  state.column = Math.min(Math.max(state.column, 0), current().columns - 1);
}

/** Goes to a query and a key given as tokens; null keeps what is. */
function choose(query, key) {
  const map = current();
  if (query !== null) {
    state.query = Math.min(Math.max(query, 0), group().rowCount - 1);
    state.row = cellOf(state.query, map.rows, group().rowCount);
  }
  if (key !== null) state.column = cellOf(key, map.columns, group().columnCount);
  clampCell();
  render();
}

function cellAt(event) {
  const box = byId('map').getBoundingClientRect();
  const column = Math.floor((event.clientX - box.left - layout.left) / layout.cell);
  const row = Math.floor((event.clientY - box.top) / layout.cell);
  const inside = row >= 0 && row < current().rows && column < current().columns;
  return inside ? {row, column: Math.max(column, 0)} : null;
}

byId('map').addEventListener('click', (event) => {
  const cell = cellAt(event);
  if (cell) Object.assign(state, cell), render();
});
byId('map').addEventListener('mousemove', (event) => {
  const cell = cellAt(event);
  if (!cell) return;
  const kept = {row: state.row, column: state.column};
  Object.assign(state, cell);
  describe();
  Object.assign(state, kept);
});
byId('map').addEventListener('mouseleave', describe);
byId('grid').addEventListener('keydown', (event) => {
  if (event.isComposing) return;
  const moves = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]};
  if (moves[event.key]) {
    state.row += moves[event.key][0];
    state.column += moves[event.key][1];
  } else if (event.key === 'Home') {
    state.column = 0;
  } else if (event.key === 'End') {
    state.column = current().columns - 1;
  } else if (event.key === 'PageUp') {
    state.map = Math.max(state.map - 1, 0);
  } else if (event.key === 'PageDown') {
    state.map = Math.min(state.map + 1, group().maps.length - 1);
  } else {
    return;
  }
  event.preventDefault();
  clampCell();
  render();
});
byId('kind').addEventListener('change', (event) => {
  Object.assign(state, {group: Number(event.target.value), map: 0, row: 0, column: 0});
  render();
});
byId('layer').addEventListener('change', (event) => {
  const head = current().head;
  const layer = Number(event.target.value);
  const same = group().maps.findIndex((map) => map.layer === layer && map.head === head);
  state.map = same >= 0 ? same : group().maps.findIndex((map) => map.layer === layer);
  clampCell();
  render();
});
byId('head').addEventListener('change', (event) => {
  state.map = Number(event.target.value);
  clampCell();
  render();
});
byId('query').addEventListener('change', (event) => choose(Number(event.target.value), null));
byId('order').addEventListener('click', () => {
  state.ordered = !state.ordered;
  render();
});
byId('language').addEventListener('click', () => {
  state.language = state.language === 'en' ? 'ko' : 'en';
  render();
});
byId('theme').addEventListener('click', () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === 'dark'
                                  : matchMedia('(prefers-color-scheme: dark)').matches;
  root.dataset.theme = dark ? 'light' : 'dark';
  render();
});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', render);

const wanted = new URLSearchParams(location.hash.slice(1));
const whole = (name, limit) => Math.min(Math.max(parseInt(wanted.get(name), 10) || 0, 0), limit);
state.group = whole('g', data.groups.length - 1);
state.map = whole('m', group().maps.length - 1);
state.row = whole('r', current().rows - 1);
state.column = whole('c', current().columns - 1);
state.language = words[wanted.get('l')] ? wanted.get('l') : words[state.language] ? state.language : 'en';
render();
