import { handler } from '../../src/cli/cli.ts'
import { processOut } from '../../src/cli/out.ts'
import { paint } from '../../src/cli/render/text.ts'

// A command that waits for what never comes, with nothing left that could bring it.
const cli = { out: processOut(), paint: paint(false) } as unknown as Parameters<typeof handler>[0]
const command = handler(cli, () => new Promise(() => undefined))
void command({ root: undefined, verbose: false })
