// What the tables of the loop bundle of the product: the loop that every teammate runs, on its real journal and model client.
export { Compaction } from '../src/agent/compact.ts'
export { runTurn } from '../src/agent/loop.ts'
export { localGate } from '../src/agent/retry.ts'
export { Session } from '../src/agent/session.ts'
export { defineTool, said } from '../src/agent/tool.ts'
export { writeTranscript } from '../src/agent/transcript.ts'
export { clock } from '../src/lib/clock.ts'
export { openaiModel } from '../src/model/openai.ts'
