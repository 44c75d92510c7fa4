// Writes docs/config.schema.json from the schema in the code. A unit test fails while the two differ.
import { writeFileSync } from 'node:fs'
import { build } from 'esbuild'

const { outputFiles } = await build({
  stdin: {
    contents: `import * as z from 'zod'; import { Config } from './src/protocol/config.ts'
      export const schema = z.toJSONSchema(Config, { io: 'input', target: 'draft-7' })`,
    resolveDir: process.cwd(),
    loader: 'ts',
  },
  bundle: true,
  write: false,
  format: 'esm',
  platform: 'node',
})
const { schema } = await import(
  `data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString('base64')}`
)
writeFileSync('docs/config.schema.json', `${JSON.stringify(schema, null, 2)}\n`)
