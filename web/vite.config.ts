import { defineConfig } from 'vite';
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { fileURLToPath } from 'node:url';

// One HTML file comes out of scripts/pack.mjs; Vite only has to make one script and one style sheet.
export default defineConfig({
  plugins: [svelte()],
  resolve: { alias: { $lib: fileURLToPath(new URL('./src/lib', import.meta.url)) } },
  build: {
    target: 'es2022',
    outDir: 'dist/parts',
    emptyOutDir: true,
    cssCodeSplit: false,
    modulePreload: false,
    assetsInlineLimit: 1 << 20,
    reportCompressedSize: false,
    rollupOptions: {
      output: { entryFileNames: 'page.js', assetFileNames: 'page[extname]', inlineDynamicImports: true },
    },
  },
  esbuild: { charset: 'utf8', legalComments: 'none' },
  test: { include: ['tests/**/*.test.ts'], environment: 'node', testTimeout: 60000 },
} as import('vite').UserConfig);
