import sys
from proof.simulation.simulation import Simulation
import proxy.log.append.space as sp
if len(sys.argv)>2:
    from proof.simulation.answers import Answers
    orig=Answers.refused
    n=[0,0]
    def refused(self, session, opcode, fields, machine):
        n[0]+=1
        if opcode in (1,15) and fields[3] in (1,3): n[1]+=1
        orig(self,session,opcode,fields,machine)
    Answers.refused=refused
    sp.Space._holds=lambda self,a,b: False
for seed in map(int,sys.argv[1].split(",")):
    w=Simulation(seed,0.12,("kill a proxy",))
    if w.knobs.quota>1e6: print(seed,"big"); continue
    o=w.run()
    print(seed, w.knobs.quota, o.violations[:2], {k:v for k,v in o.branches.items() if "reserve" in k or "room" in k or "space" in k}, n if len(sys.argv)>2 else "", flush=True)
