// Links inside the open page, and the browser's Back.
import { finish, open, settle } from './page.mjs';
import { check, test } from './support.mjs';

test('a link to another model or text runs it, and Back leads to the one before', async (context) => {
  const { decoder, encoder } = context.models;
  if (!encoder) return 'skip';
  const page = await open(context, `/steps?m=${decoder}&l=1&s=5`);
  const ran = [];
  // Firefox does not show the body of every request; then the model is checked by what the page shows.
  page.on('request', (r) => {
    if (r.method() === 'POST' && r.url().endsWith('/heed/v1/traces')) ran.push(JSON.parse(r.postData())?.model ?? encoder);
  });
  const lead = async (hash) => {
    await page.evaluate((to) => (location.hash = to), hash);
    await settle(page);
  };
  const text = encodeURIComponent('the film was [MASK]');
  await lead(`#/read?m=${encoder}&x=${text}`);
  check(String(ran) === encoder, `what ran: ${ran}`);
  check((await page.locator('#text').inputValue()) === 'the film was [MASK]', 'its text');
  check((await page.locator('[role=toolbar]').first().textContent()).includes('[MASK]'), 'its tokens');
  await lead('#/map?l=1'); // about the same model
  check(ran.length === 1, `and not again: ${ran}`);
  await lead(`#/map?m=${encoder}&x=${encodeURIComponent('the [MASK] was good')}&l=1`);
  check(ran.length === 2, `another text: ${ran}`);
  await page.goBack();
  await settle(page);
  check(ran.length === 3 && ran[2] === encoder, `Back: ${ran}`);
  await finish(context, page);
});
