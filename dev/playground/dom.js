/**
 * An element. A plain object behind its name holds its attributes and listeners. Text goes in as text, never as markup,
 * because much of it comes from tokens and answers.
 */
export function element (name, ...children) {
  const node = document.createElement(name)
  const { className, ...attributes } = children[0]?.constructor === Object ? children.shift() : {}
  if (className !== undefined) node.className = className
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === 'function') node.addEventListener(key, value)
    else if (value === true) node.setAttribute(key, '')
    else if (value !== false && value !== undefined) node.setAttribute(key, value)
  }
  node.append(...children.flat(Infinity).filter(Boolean))
  return node
}

/** A small button, behind other text. */
export const smallButton = (label, click, attributes = {}) =>
  element('button', { type: 'button', className: 'small', click, ...attributes }, label)

/** Text in which `code` is marked as in Markdown. */
export const prose = text => text.split('`').map((part, index) => index % 2 === 0 ? part : element('code', part))

export const byId = id => document.getElementById(id)
