// Writes docs/config.schema.json and docs/json/*.schema.json from the schemas in the code. A unit test fails while they differ.
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { build } from 'esbuild'

const { outputFiles } = await build({
  stdin: {
    contents: `import * as z from 'zod'; import { Config } from './src/protocol/config.ts'
      import { outputs, outputSchema } from './src/cli/outputs.ts'
      export const schema = z.toJSONSchema(Config, { io: 'input', target: 'draft-7' })
      export const printed = Object.keys(outputs).map(name => [name, outputSchema(name)])`,
    resolveDir: process.cwd(),
    loader: 'ts',
  },
  bundle: true,
  write: false,
  format: 'esm',
  platform: 'node',
})
const { schema, printed } = await import(
  `data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString('base64')}`
)
const write = (file, value) => writeFileSync(file, `${JSON.stringify(value, null, 2)}\n`)
write('docs/config.schema.json', schema)
rmSync('docs/json', { recursive: true, force: true })
mkdirSync('docs/json')
for (const [name, value] of printed) write(`docs/json/${name}.schema.json`, value)
