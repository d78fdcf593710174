// Starts the requests that no HTML element can start at the time that the page requires. Synthetic documents
// hold this script. A reference is an array: URL, initiator type, delay in ms, references to start when the
// response has ended, phase, and more values. Initiator types: 0 image, 1 script, 2 stylesheet, 3 frame,
// 4 fetch, 5 font, 6 fetched and evaluated script, 7 fetched image. Phases: 0 load, 1 async, 2 after. The load
// event waits for open frames, so frame h stays open while n resources of phase load are still to come.
var d=document,n=0,h;
function H(){
if(!n++){
h||(h=d.createElement("iframe"),d.documentElement.append(h));
h.contentDocument.open()
}
}
function F(){
--n||h.contentDocument.close()
}
// Calls f after t ms, in phase p.
function T(t,p,f){
p||H();
let g=()=>{f();p||F()},w=()=>t?setTimeout(g,t):g();
p>1&&d.readyState!="complete"?addEventListener("load",w):w()
}
function _([u,k,t,c=[],p=0,x=[]]){
T(t,p,()=>{
let a=d.documentElement,q=()=>c.map(_),e,l;
if(k>3){
p||H();
l=()=>{q();p||F()};
(k==5?new FontFace("f",`url("${u}")`).load():fetch(u,{priority:k>6?"low":"auto",credentials:"include",method:x[0],body:x[1]?".".repeat(x[1]):void 0,headers:x[2]?{x:1}:{}}).then(r=>r.text()).then(k==6?eval:0)).then(l,l)
}else{
e=d.createElement(["img","script","link","iframe"][k]);
// For a stylesheet, the further values are the images (0) and fonts (1) that its rules load: number, type,
// delay and phase of each. The browser loads them when an element uses them.
e.onload=e.onerror=()=>{
q();
k==2&&x.map(([i,k,t,p=0])=>T(t,p,()=>{
if(k){
p||H();
let f=()=>p||F();
d.fonts.load("1px r"+i).then(f,f)
}else{
let b=d.createElement("b");
b.className="r"+i;
a.append(b);
getComputedStyle(b).backgroundImage
}
}))
};
k==2?(e.rel="stylesheet",e.href=u):e.src=u;
k==1&&(e.fetchPriority="high");
a.append(e)
}
})
}
// In documents, a template has the URLs of references as images, for parsers without scripts. The <x-r>
// element after the template has the other values. The references start together, in order: an image is
// requested in a microtask, so the next reference waits for the microtask.
customElements.define("x-r",class extends HTMLElement{
connectedCallback(){
let i=0,l=this.previousElementSibling.content.children,s=r=>{
r[0]=l[i++].src;
(r[3]||[]).map(s)
},r=JSON.parse(this.getAttribute("a"));
r.map(s);
(async()=>{
for(let x of r){
_(x);
await 0
}
})()
}
})
