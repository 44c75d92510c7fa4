import fc from 'fast-check'
import { expect, test } from 'vitest'
import { makeRedactor, redactStream } from '../../src/lib/redact.ts'

const secret = 'sk-TEST-123'

test('G07 a known secret is replaced, as it is and as JSON, a URL or base64 show it', () => {
  const odd = 'pa"ss/wo rd+1'
  const redact = makeRedactor([secret, odd])
  for (const text of [
    secret,
    `key=${secret}.`,
    odd,
    JSON.stringify(odd),
    encodeURIComponent(odd),
    Buffer.from(secret).toString('base64'),
    Buffer.from(`${secret}\n`).toString('base64'),
  ]) {
    expect(redact(text), text).toContain('[redacted]')
    expect(redact(text)).not.toContain(secret)
  }
})

test('shapes of keys are replaced whoever they belong to, and ordinary words are not', () => {
  const redact = makeRedactor([])
  for (const text of [
    `sk-proj-${'aB3'.repeat(10)}`,
    `ghp_${'a1B2'.repeat(9)}`,
    'AKIAIOSFODNN7EXAMPLE',
    `xoxb-${'1234567890-'.repeat(3)}`,
    '-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----',
  ])
    expect(redact(`x ${text} y`), text).toBe('x [redacted] y')
  for (const text of [
    'task-management-of-many-things-1',
    'sk-learn',
    'desk-0123456789012345678901',
    'a'.repeat(100),
    'AKIA',
    'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=',
  ])
    expect(redact(text)).toBe(text)
})

test('short and empty values are left alone', () => {
  expect(makeRedactor(['', 'abc', '   '])('abc   def')).toBe('abc   def')
})

test('a stream is redacted wherever its pieces are cut, and loses nothing', () => {
  const redact = makeRedactor([secret])
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom(secret, 'a', ' ', '\n', '🦊', 'sk-', 'x'.repeat(40)), { maxLength: 60 }),
      fc.array(fc.integer({ min: 1, max: 30 }), { minLength: 1 }),
      (parts, sizes) => {
        const text = parts.join('')
        const stream = redactStream(redact, secret.length)
        let out = ''
        for (let at = 0, i = 0; at < text.length; i++) {
          const size = sizes[i % sizes.length] ?? 1
          out += stream.push(text.slice(at, at + size))
          at += size
        }
        expect(out + stream.end()).toBe(redact(text))
      },
    ),
    { numRuns: 500 },
  )
})
