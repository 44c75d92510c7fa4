import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'

const top = fileURLToPath(new URL('../..', import.meta.url))

export interface Import {
  readonly specifier: string
  /** `static` is loaded with the file, `dynamic` when the program gets there, `type` never. */
  readonly kind: 'static' | 'dynamic' | 'type'
  /** `import * as …` */
  readonly whole: boolean
}

/** What the architecture rules look at in one file; comments and the insides of strings do not count. */
export interface Source {
  /** Below `src/`, with `/`. */
  readonly path: string
  readonly lines: number
  readonly imports: readonly Import[]
  /** `Date.now`, `process.env`, `new Date()` without arguments, and other reads of a global's member. */
  readonly reads: readonly string[]
  readonly classes: readonly string[]
}

/** Every TypeScript file below src/. */
export const sources = (): Source[] =>
  readdirSync(`${top}src`, { recursive: true, withFileTypes: true })
    .filter(entry => entry.isFile() && entry.name.endsWith('.ts'))
    .map(entry => `${entry.parentPath}/${entry.name}`.slice(`${top}src/`.length))
    .sort()
    .map(path => parse(path, readFileSync(`${top}src/${path}`, 'utf8')))

export const parse = (path: string, text: string): Source => {
  const imports: Import[] = []
  const reads: string[] = []
  const classes: string[] = []
  const literal = (node: ts.Node | undefined) => (node && ts.isStringLiteralLike(node) ? node.text : '')

  const visit = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node)) {
      const clause = node.importClause
      const names = clause?.namedBindings
      const onlyTypes =
        clause?.phaseModifier === ts.SyntaxKind.TypeKeyword ||
        (names !== undefined &&
          ts.isNamedImports(names) &&
          clause?.name === undefined &&
          names.elements.length > 0 &&
          names.elements.every(element => element.isTypeOnly))
      const whole = names !== undefined && ts.isNamespaceImport(names)
      imports.push({ specifier: literal(node.moduleSpecifier), kind: onlyTypes ? 'type' : 'static', whole })
    } else if (ts.isExportDeclaration(node) && node.moduleSpecifier) {
      const kind = node.isTypeOnly ? 'type' : 'static'
      imports.push({ specifier: literal(node.moduleSpecifier), kind, whole: false })
    } else if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument)) {
      imports.push({ specifier: literal(node.argument.literal), kind: 'type', whole: false })
    } else if (ts.isCallExpression(node)) {
      const called = node.expression
      if (called.kind === ts.SyntaxKind.ImportKeyword || (ts.isIdentifier(called) && called.text === 'require'))
        imports.push({ specifier: literal(node.arguments[0]), kind: 'dynamic', whole: true })
    } else if (ts.isPropertyAccessExpression(node) && ts.isIdentifier(node.expression)) {
      reads.push(`${node.expression.text}.${node.name.text}`)
    } else if (ts.isElementAccessExpression(node) && ts.isIdentifier(node.expression)) {
      reads.push(`${node.expression.text}.${literal(node.argumentExpression)}`)
    } else if (ts.isNewExpression(node) && ts.isIdentifier(node.expression) && !node.arguments?.length) {
      reads.push(`new ${node.expression.text}()`)
    } else if (ts.isVariableDeclaration(node) && ts.isObjectBindingPattern(node.name) && node.initializer) {
      const from = node.initializer
      if (ts.isIdentifier(from))
        for (const { propertyName, name } of node.name.elements)
          reads.push(`${from.text}.${(propertyName ?? name).getText()}`)
    } else if (ts.isClassDeclaration(node) && node.name) {
      classes.push(node.name.text)
    }
    ts.forEachChild(node, visit)
  }
  visit(ts.createSourceFile(path, text, ts.ScriptTarget.ES2023, true))
  return { path, lines: text.trimEnd().split('\n').length, imports, reads, classes }
}
